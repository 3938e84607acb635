// One of several processes that ask one engine: it connects, asks once, and on each message so many callers ask for so many seconds. Plain
// JavaScript, so that nothing is loaded but what it needs.
const { side, path, model, callers } = JSON.parse(process.argv[2])
const elements = model.rowDims.reduce((count, dim) => count * dim, 1)
const ask = side === 'http' ? await overHttp() : await throughConnection()
await ask()

async function throughConnection() {
  const { connect } = await import('zerohop/processes')
  const engine = await connect(path, { sharedMemory: side === 'shared memory' })
  const data = new Float32Array(elements).fill(0.5)
  const feeds = { [model.input]: { type: 'float32', dims: [1, ...model.rowDims], data } }
  return () => engine.infer('model', feeds)
}

async function overHttp() {
  const { Agent, request } = await import('node:http')
  const agent = new Agent({ keepAlive: true, maxSockets: callers })
  const body = Buffer.from(new Float32Array(elements).fill(0.5).buffer)
  const headers = { 'content-type': 'application/octet-stream', 'content-length': body.length }
  return () =>
    new Promise((resolve, reject) => {
      const sent = request(
        { socketPath: path, path: '/infer', method: 'POST', agent, headers },
        (response) => {
          const parts = []
          response
            .on('data', (part) => parts.push(part))
            .on('end', () => {
              const bytes = Buffer.concat(parts)
              const floats = new Float32Array(bytes.length / 4)
              new Uint8Array(floats.buffer).set(bytes)
              resolve(floats)
            })
        },
      )
      sent.on('error', reject).end(body)
    })
}

process.on('message', async (seconds) => {
  if (seconds === 'end') process.exit()
  const endMs = performance.now() + seconds * 1000
  let requests = 0
  const caller = async () => {
    while (performance.now() < endMs) {
      await ask()
      requests++
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  process.send({ requests })
})
process.send('ready')
