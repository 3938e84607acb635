import { existsSync, readFileSync } from 'node:fs'
import sharp from 'sharp'
import { decodeImage } from 'zerohop/image'
import { step } from './environments.ts'
import { source } from './folders.ts'
import { pythonOf } from './peers/python.ts'

/** CPU time of decoding, scaling and cutting a photograph, in milliseconds, by those that peers do it with; `null` where it is not set up. */
export interface DecodersMs {
  /** `decodeImage`, of all peers in Node: with `@julusian/jpeg-turbo`, which is among the development dependencies. */
  readonly zerohop: number
  /** The same by sharp alone, which is what Node has without that. */
  readonly sharp: number
  /** Of all peers in Python. */
  readonly opencv: number | null
}

/** Measures decoders alone, one photograph after the other: what of the figures with JPEGs is theirs, and not the peers'. */
export async function decodersMs(
  files: readonly string[],
  pythonPeers: readonly string[],
  seconds: number,
): Promise<DecodersMs> {
  const peer = pythonPeers.find((name) => existsSync(pythonOf(name)))
  const opencv =
    peer === undefined
      ? null
      : Number(await step(pythonOf(peer), [source('python/decode_time.py'), String(seconds), ...files]))
  const size = { width: 224, height: 224 }
  const into = new Float32Array(3 * size.width * size.height) // an array for each would be garbage, which costs more the more this process holds
  const zerohop = await cpuMs(files, seconds, (body) =>
    decodeImage(body, { ...size, channels: 'bgr' }, { into }),
  )
  return {
    zerohop,
    sharp: await cpuMs(files, seconds, (body) =>
      sharp(body).autoOrient().resize(size).removeAlpha().raw().toBuffer(),
    ),
    opencv,
  }
}

async function cpuMs(
  files: readonly string[],
  seconds: number,
  decode: (body: Buffer) => Promise<unknown>,
): Promise<number> {
  const bodies = files.map((file) => readFileSync(file))
  const decodeAll = async (): Promise<void> => {
    for (const body of bodies) await decode(body)
  }
  await decodeAll()
  const until = performance.now() + seconds * 1000
  const before = process.cpuUsage()
  let count = 0
  for (; performance.now() < until; count += bodies.length) await decodeAll()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000 / count
}
