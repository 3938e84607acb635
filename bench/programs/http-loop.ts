import fastify from 'fastify'
import { Tensor } from 'zerohop'
import { answer, input, run } from '../child.ts'
import { LoopDelayProbe } from '../loop-delay.ts'
import { openServer } from '../server.ts'
import type { ClosedLoop, ClosedLoopResult } from './closed-loop.ts'
import type { HttpClient, HttpClientResult } from './http-client.ts'

/** A server of one route, binary in and out, whose callers are connections from another process. */
export type HttpLoop = Omit<ClosedLoop, 'rows'>

const { side, concurrency, warmupSeconds, seconds, ...settings } = input<HttpLoop>()
const { rowDims, input: name } = settings.model
const dims = [1, ...rowDims]
const server = await openServer(side)
const loaded = await server.load(settings)
const probe = new LoopDelayProbe()

const app = fastify({ bodyLimit: 2 ** 24 })
app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) =>
  done(null, body),
)
const running = new Set<Promise<unknown>>()
app.post('/infer', async ({ body }, reply) => {
  const answered = loaded.infer({ [name]: new Tensor('float32', floatsOf(body as Buffer), dims) })
  running.add(answered)
  const outputs = await answered.finally(() => running.delete(answered))
  const { buffer, byteOffset, byteLength } = Object.values(outputs)[0]!.data as Float32Array
  return reply
    .header('content-type', 'application/octet-stream')
    .send(Buffer.from(buffer, byteOffset, byteLength))
})
// The client says when it has warmed up.
app.get('/measure', async () => probe.start())

function floatsOf(body: Buffer): Float32Array {
  const { buffer, byteOffset, byteLength } = body.byteOffset % 4 === 0 ? body : Uint8Array.from(body)
  return new Float32Array(buffer, byteOffset, byteLength / 4)
}

const url = await app.listen({ host: '127.0.0.1', port: 0 })
const client: HttpClient = {
  url,
  connections: concurrency,
  bodyBytes: 4 * dims.reduce((count, dim) => count * dim, 1),
  warmupSeconds,
  seconds,
}
const { requestsPerSecond } = await run<HttpClientResult>('programs/http-client.ts', client)
const result: ClosedLoopResult = {
  rowsPerSecond: requestsPerSecond,
  meanBatchRows: loaded.meanBatchRows(),
  loopDelay: await probe.stop(),
}
await app.close()
// What the client has left behind: a Piscina that is closed meanwhile ends a thread inside ONNX Runtime, and the process with it.
await Promise.allSettled(running)
await server.close()
answer(result)
