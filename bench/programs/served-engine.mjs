// An engine that other processes ask, by zerohop/processes or by HTTP with binary bodies over a Unix socket. Plain JavaScript, so that
// nothing is loaded but what it needs.
import { createServer } from 'node:http'
import { InferenceEngine, Tensor } from 'zerohop'
import { serve } from 'zerohop/processes'

const { side, path, model } = JSON.parse(process.argv[2])
const engine = new InferenceEngine()
const loaded = await engine.load('model', { path: model.path })
const server = side === 'http' ? await overHttp() : await serve(engine, { path })

async function overHttp() {
  const http = createServer((request, response) => {
    const parts = []
    request.on('data', (part) => parts.push(part))
    request.on('end', async () => {
      const body = Buffer.concat(parts)
      const floats = new Float32Array(body.length / 4)
      new Uint8Array(floats.buffer).set(body)
      const outputs = await loaded.infer({
        [model.input]: new Tensor('float32', floats, [1, ...model.rowDims]),
      })
      const { buffer, byteOffset, byteLength } = Object.values(outputs)[0].data
      response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': byteLength })
      response.end(Buffer.from(buffer, byteOffset, byteLength))
    })
  })
  await new Promise((resolve) => http.listen(path, resolve))
  return { close: () => new Promise((resolve) => (http.close(resolve), http.closeAllConnections())) }
}

process.on('message', async (word) => {
  if (word === 'collect') return (globalThis.gc(), process.send('collected'))
  await server.close()
  await engine.close()
  process.disconnect()
})
process.send('ready')
