import fastify from 'fastify'
import type { LoopInput } from '../../workload.ts'
import { openBackEnd, type BackEndSettings } from './back-end.ts'

// Fastify with one route, whatever answers behind it.

export interface ServerInput {
  readonly workload: LoopInput['workload']
  readonly settings: BackEndSettings
  readonly port: number
}

const { workload, settings, port } = JSON.parse(process.argv[2]!) as ServerInput
const backEnd = await openBackEnd(workload, settings)

const app = fastify({ bodyLimit: 2 ** 24 })
for (const type of ['application/octet-stream', 'image/jpeg']) {
  app.addContentTypeParser(type, { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
}
const ofNumbers = { type: 'array', items: { type: 'number' } }
// A schema of the answer is Fastify's own advice: https://fastify.dev/docs/latest/Reference/Validation-and-Serialization/#serialization
const schema = { response: { 200: { type: 'object', properties: { output: ofNumbers } } } }
app.post('/json', { schema }, async ({ body }) => {
  const output = await backEnd.infer(Float32Array.from((body as { input: number[] }).input))
  return { output: Array.from(output) }
})
app.post('/binary', async ({ body }, reply) => {
  const { buffer, byteOffset, byteLength } = await backEnd.infer(
    workload.jpeg ? (body as Buffer) : floatsOf(body as Buffer),
  )
  return reply
    .header('content-type', 'application/octet-stream')
    .send(Buffer.from(buffer, byteOffset, byteLength))
})

function floatsOf(body: Buffer): Float32Array {
  const { buffer, byteOffset, byteLength } = body.byteOffset % 4 === 0 ? body : Uint8Array.from(body)
  return new Float32Array(buffer, byteOffset, byteLength / 4)
}

await app.listen({ host: '127.0.0.1', port })
