// Mixed abuse of KServe, the inspector and a served engine, beside honest clients:
//
//     tsx test/chaos/network-abuse.ts [--seconds 180] [--seed 1] [--one] [--kinds noise] [--asan]
//
// Six abusers at once, each with another kind of abuse at every turn; with `--one` a single abuser, with one kind after the other. `--kinds` keeps those whose names contain a text. Afterwards no descriptor, byte, handler, client or request may be held, and no honest request may have failed. `--asan` runs the server on
// the addon that was built with the address sanitizer.
import { spawnSync, fork, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { loadBinding } from '../../src/native/addon.ts'
import { greetNatively } from '../../src/adapters/processes/client-connection.ts'
import {
  frameKinds,
  frameOf,
  messageText,
  protocolVersion,
  textFrame,
} from '../../src/adapters/processes/messages.ts'
import { SharedRings } from '../../src/adapters/processes/shared-rings.ts'
import { mulberry32 } from '../models/random.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '180' },
    seed: { type: 'string', default: '1' },
    one: { type: 'boolean', default: false },
    asan: { type: 'boolean', default: false },
    kinds: { type: 'string' },
  },
})
const path = (file: string) => fileURLToPath(new URL(file, import.meta.url))
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const random = mulberry32(Number(values.seed))
const below = (count: number) => Math.floor(random() * count)
const noise = (length: number) => Buffer.from(Array.from({ length }, () => below(256)))

const library = (name: string) =>
  spawnSync('g++', [`-print-file-name=${name}`], { encoding: 'utf8' }).stdout.trim()
const sanitizer = {
  LD_PRELOAD: ['libasan.so', 'libstdc++.so.6'].map(library).join(' '),
  ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1',
  ZEROHOP_NATIVE: path('../../build/cmake/Asan/zerohop.node'),
}

function start(program: string, input: object, env: NodeJS.ProcessEnv = {}): ChildProcess {
  return fork(path(`fixtures/${program}`), [JSON.stringify(input)], {
    execArgv: ['--expose-gc'],
    env: { ...process.env, ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none', ...env },
  })
}
const answerOf = <T>(child: ChildProcess): Promise<T> =>
  new Promise((resolve, reject) => {
    child.once('message', (word) => resolve(word as T))
    child.once('exit', (code, signal) => reject(new Error(`ended with ${signal ?? code}`)))
  })
function ask<T>(child: ChildProcess): Promise<T> {
  const answer = answerOf<T>(child)
  child.send('report')
  return answer
}

interface Held {
  readonly files: number
  readonly connections: number
  readonly handlers: { kserve: number; inspector: number }
  readonly server: { clients: number; inFlight: number }
  readonly pending: number
  readonly rss: number
  readonly arrayBuffers: number
  readonly heapUsed: number
  readonly peakRssBytes: number
}
interface Honest {
  readonly faults: string[]
  readonly asked: Record<string, number>
  readonly p99Ms: Record<string, number>
  readonly mostMs: Record<string, number>
}

const folder = mkdtempSync(join(tmpdir(), 'zh-'))
const socket = join(folder, 'socket')
const model = path('../../examples/digits/model.onnx')
const serving = start('abused-server.mjs', { model, socket }, values.asan ? sanitizer : {})
const { api, page, maxHeldBytes } = await answerOf<{ api: number; page: number; maxHeldBytes: number }>(
  serving,
)
const honest = start('honest-clients.mjs', { api, socket })
await answerOf(honest)

/** What one abuser does on one connection; each ends by itself. */
const tensor = JSON.stringify({
  inputs: [
    { name: 'image', datatype: 'FP32', shape: [1, 1, 8, 8], data: Array.from({ length: 64 }, () => 0) },
  ],
})
const post = (to: string, body: string | Buffer, headers = '', length = Buffer.byteLength(body)) =>
  Buffer.concat([
    Buffer.from(`POST ${to} HTTP/1.1\r\nhost: localhost\r\n${headers}content-length: ${length}\r\n\r\n`),
    Buffer.from(body),
  ])
const digits = '/v2/models/digits/infer'

async function open(to: number | string): Promise<Socket> {
  const connection = typeof to === 'number' ? connect(to, '127.0.0.1') : connect(to)
  connection.on('error', () => {})
  await new Promise((resolve) => connection.once('connect', resolve).once('close', resolve))
  return connection
}
/** Sends some bytes, and then, at some time, is reset, ends, or goes on without reading. */
async function send(to: number | string, bytes: Buffer): Promise<void> {
  const connection = await open(to)
  if (random() < 0.5) connection.pause()
  else connection.resume()
  connection.write(bytes)
  await pause(below(4) === 0 ? below(1500) : below(60))
  if (random() < 0.7 && typeof to === 'number') connection.resetAndDestroy()
  else connection.destroy()
}
const slow = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] }] })
const deep = (levels: number) => `{"inputs":${'['.repeat(levels)}${']'.repeat(levels)}}`
const events = 'GET / HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n'
const hello = { protocol: protocolVersion, version: '0', sharesMemory: false }
const greeting = textFrame(frameKinds.hello, messageText(hello))
const withdrawals = (count: number) => {
  const frame = frameOf(frameKinds.withdrawal, 4).fill(0, 8)
  const frames = Buffer.alloc(count * frame.length)
  for (let at = 0; at < frames.length; at += frame.length) frames.set(frame, at)
  return frames
}
const processes = loadBinding().binding?.processes ?? null

const abuses: Record<string, () => Promise<void>> = {
  'pipelined requests': () =>
    send(api, Buffer.concat(Array.from({ length: 1 + below(60) }, () => post(digits, tensor)))),
  'requests behind slow ones, with large bodies': () =>
    send(
      api,
      Buffer.concat([
        ...Array.from({ length: 1 + below(8) }, () => post('/v2/models/slow/infer', slow)),
        post(digits, Buffer.alloc(below(8 * 2 ** 20), 32)),
      ]),
    ),
  'bodies that do not come': () => send(api, post(digits, tensor, '', 1000 + below(50 * 2 ** 20))),
  'bodies in chunks of one byte': () =>
    send(
      api,
      Buffer.concat([
        Buffer.from(`POST ${digits} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n`),
        Buffer.from('1\r\n \r\n'.repeat(below(400_000))),
      ]),
    ),
  'deep JSON': () => send(api, post(digits, deep(1 + below(200_000)))),
  'many values': () => send(api, post(digits, `{"inputs":[${'0,'.repeat(below(400_000))}0]}`)),
  'compressed JSON': () =>
    send(api, post(digits, gzipSync(deep(1 + below(3_000_000))), 'content-encoding: gzip\r\n')),
  'compressed spaces': () =>
    send(api, post(digits, gzipSync(Buffer.alloc(below(30 * 2 ** 20), 32)), 'content-encoding: gzip\r\n')),
  'noise over HTTP': () => send(below(2) === 0 ? api : page, noise(below(5000))),
  'lies about tensors': () =>
    send(
      api,
      post(
        digits,
        JSON.stringify({
          inputs: [
            {
              name: 'image',
              datatype: 'FP32',
              shape: [2 ** below(40), 1, 8, 8],
              parameters: { binary_data_size: 2 ** below(40) },
            },
          ],
        }) + 'x'.repeat(below(1000)),
        `inference-header-content-length: ${below(300)}\r\n`,
      ),
    ),
  'viewers that do not read': () =>
    send(
      page,
      Buffer.from(
        'GET / HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(below(40)) + events.repeat(1 + below(20)),
      ),
    ),
  'noise for the server': () => send(socket, noise(below(20_000))),
  'noise after a greeting': () => {
    const frame = frameOf(frameKinds.record, 4096)
    frame.set(noise(4096), 8)
    return send(socket, Buffer.concat([greeting, frame]))
  },
  'calls whose answers are not read': () =>
    send(
      socket,
      Buffer.concat([
        greeting,
        ...Array.from({ length: below(5000) }, (_, id) =>
          textFrame(frameKinds.call, messageText({ id, method: 'stats', args: [] })),
        ),
      ]),
    ),
  'withdrawals of requests that there are not': () =>
    send(socket, Buffer.concat([greeting, withdrawals(below(200_000))])),
  'half a greeting': () => send(socket, greeting.subarray(0, below(greeting.length))),
  'noise in shared memory': async () => {
    if (processes === null) return
    const { descriptor, welcome, handedOver } = await greetNatively(
      processes,
      socket,
      { ...hello, sharesMemory: true },
      2000,
    )
    if (handedOver === null) {
      // Such clients have come too fast.
      await pause(below(100))
      return processes.close(descriptor)
    }
    const rings = SharedRings.take(processes, handedOver, welcome.ringBytes, () => {})
    const { words } = rings.views
    for (let change = 0; change < 300; change++)
      words[below(change % 2 === 0 ? 128 : 4096 + 1024)] =
        random() < 0.5 ? below(64) : Math.floor(random() * 2 ** 32) | 0
    for (let times = below(10); times >= 0; times--) rings.bell.ring()
    await pause(below(100))
    rings.release()
    processes.close(descriptor)
  },
}

/** Longer than a silent client is waited for. */
const settleMs = 12_000
await pause(1000)
await ask<Honest>(honest)
const quietMs = Math.min(10_000, Number(values.seconds) * 500)
await pause(quietMs)
const alone = await ask<Honest>(honest)
const before = await ask<Held>(serving)

const counts: Record<string, number> = {}
async function abuser(names: readonly string[], seconds: number): Promise<void> {
  const until = performance.now() + seconds * 1000
  while (performance.now() < until) {
    const name = names[below(names.length)]!
    counts[name] = (counts[name] ?? 0) + 1
    try {
      await abuses[name]!()
    } catch {
      // A greeting that is refused is as good an end as any.
    }
  }
}
const kinds = Object.keys(abuses).filter((kind) => kind.includes(values.kinds ?? ''))
const seconds = Number(values.seconds)
const abused: Record<string, Honest> = {}
if (values.one) {
  for (const kind of kinds) {
    await abuser([kind], seconds / kinds.length)
    abused[kind] = await ask<Honest>(honest)
  }
} else {
  await Promise.all(Array.from({ length: 6 }, () => abuser(kinds, seconds)))
  abused['all'] = await ask<Honest>(honest)
}
await pause(settleMs)
const after = await ask<Held>(serving)

/** A body as large as all that may be held at once is still taken. */
const large = await open(api)
const reply = new Promise<string>((resolve) =>
  large.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1', 0, 12))),
)
large.write(post(digits, Buffer.concat([Buffer.from(tensor), Buffer.alloc(60 * 2 ** 20, 32)])))
const answered = await Promise.race([reply, pause(20_000).then(() => 'no answer')])
large.destroy()

const faults = [
  ...alone.faults,
  ...Object.values(abused).flatMap((clients) => clients.faults),
  ...(after.files > before.files ? [`${after.files} open files, ${before.files} before`] : []),
  ...(after.connections > before.connections
    ? [`${after.connections} connections, ${before.connections} before`]
    : []),
  // One request of the honest client over HTTP may be under way.
  ...(after.handlers.kserve > 1 || after.handlers.inspector > 0
    ? [`handlers ${JSON.stringify(after.handlers)}`]
    : []),
  ...(after.server.clients !== 1 ? [`${after.server.clients} clients of the server`] : []),
  ...(after.pending > 2 ? [`${after.pending} requests that wait`] : []),
  ...(after.arrayBuffers > before.arrayBuffers + 16 * 2 ** 20
    ? [`${after.arrayBuffers} bytes of buffers, ${before.arrayBuffers} before`]
    : []),
  ...(answered.includes('503') || answered === 'no answer' ? [`a large body afterwards: ${answered}`] : []),
]
for (const child of [honest, serving]) {
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code)))
  child.send('end')
  const code = await Promise.race([ended, pause(20_000).then(() => 'no end')])
  if (code !== 0) faults.push(`${child === honest ? 'the clients' : 'the server'} ended with ${String(code)}`)
  if (code === 'no end') child.kill('SIGKILL')
}
rmSync(folder, { recursive: true, force: true })
const mebibytes = (bytes: number) => Math.round(bytes / 2 ** 20)
console.log(counts)
const rounded = (times: Record<string, number>, what: string) =>
  Object.fromEntries(
    Object.entries(times).map(([way, value]) => [`${way}, ${what}`, Math.round(value * 100) / 100]),
  )
console.table(
  Object.fromEntries(
    Object.entries({ 'no abuse': alone, ...abused }).map(([kind, { p99Ms, mostMs, asked }]) => [
      kind,
      { ...rounded(p99Ms, 'p99 ms'), ...rounded(mostMs, 'longest ms'), ...rounded(asked, 'requests') },
    ]),
  ),
)
console.log({
  openFiles: [before.files, after.files],
  rssMiB: [mebibytes(before.rss), mebibytes(after.rss)],
  peakRssMiB: mebibytes(after.peakRssBytes),
  maxHeldMiB: mebibytes(maxHeldBytes),
  faults: faults.slice(0, 20),
})
if (faults.length > 0) process.exitCode = 1
