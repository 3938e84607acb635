import { readFileSync } from 'node:fs'
import sharp from 'sharp'
import { decodeImage } from 'zerohop/image'
import { answer, input } from '../child.ts'
import { median } from '../statistics.ts'

/** Photographs as files that become planes of float32, one after the other. */
export interface DecodingInput {
  readonly side: 'plain' | 'ours'
  readonly images: readonly string[]
  readonly seconds: number
}

/** Of one image, all threads of the process together. */
export interface DecodingResult {
  readonly cpuMs: readonly number[]
  readonly wallMs: readonly number[]
}

const size = 224
const { side, images, seconds } = input<DecodingInput>()
const decode =
  side === 'ours'
    ? (file: Buffer) => decodeImage(file, { width: size, height: size, fit: 'cover', scale: 1 / 255 })
    : byHand

/** What an application does without this library. */
async function byHand(file: Buffer): Promise<Float32Array> {
  const pixels = await sharp(file)
    .resize(size, size, { fit: 'cover' })
    .removeAlpha()
    .toColourspace('srgb')
    .raw()
    .toBuffer()
  const planes = new Float32Array(pixels.length)
  const area = size * size
  for (let pixel = 0; pixel < area; pixel++) {
    for (let channel = 0; channel < 3; channel++)
      planes[channel * area + pixel] = pixels[3 * pixel + channel]! / 255
  }
  return planes
}

const found = []
for (const path of images) {
  const file = readFileSync(path)
  await decode(file)
  const times: { cpuMs: number; wallMs: number }[] = []
  for (
    const untilMs = performance.now() + (seconds * 1000) / images.length;
    performance.now() < untilMs || times.length < 3;
  ) {
    const [before, startMs] = [process.cpuUsage(), performance.now()]
    await decode(file)
    const { user, system } = process.cpuUsage(before)
    times.push({ cpuMs: (user + system) / 1000, wallMs: performance.now() - startMs })
  }
  found.push({
    cpuMs: median(times.map(({ cpuMs }) => cpuMs)),
    wallMs: median(times.map(({ wallMs }) => wallMs)),
  })
}
answer({
  cpuMs: found.map(({ cpuMs }) => cpuMs),
  wallMs: found.map(({ wallMs }) => wallMs),
} satisfies DecodingResult)
