// A process whose memory is looked at: it asks a served engine some times, has its garbage collected, and stays until it is ended. On the
// side 'bare' it asks nobody. Plain JavaScript, and no channel to who has started it: nothing is loaded but what a client needs.
import { writeSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'

const { side, path, model, requests } = JSON.parse(process.argv[2])
export const asked = side === 'bare' ? null : await ask()
for (let turn = 0; turn < 2; turn++) {
  await setImmediate() // who has asked last is done with it
  globalThis.gc()
}
writeSync(1, 'ready')
setInterval(() => {}, 2 ** 30)

async function ask() {
  const { connect } = await import('zerohop/processes')
  const engine = await connect(path)
  const dims = [1, ...model.rowDims]
  const elements = dims.reduce((count, dim) => count * dim, 1)
  for (let left = requests; left > 0; left--) {
    const data = new Float32Array(elements).fill(0.5)
    await engine.infer('model', { [model.input]: { type: 'float32', dims, data } })
  }
  return engine
}
