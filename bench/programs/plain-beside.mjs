// Does the work of a first load in a process of normal priority: opens a model, which writes its optimised form, runs it, then opens
// and runs that form. Or makes the runs of a check of rows.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { InferenceSession, Tensor } from 'onnxruntime-node'

const { model: { path, input, rowDims }, times, runs } = JSON.parse(process.argv[2]) // prettier-ignore

const elements = rowDims.reduce((product, dim) => product * dim)
const rowsOf = (rows) => ({
  [input]: new Tensor('float32', new Float32Array(rows * elements).fill(0.5), [rows, ...rowDims]),
})

const dir = mkdtempSync(join(tmpdir(), 'zerohop-'))
const optimizedModelFilePath = join(dir, 'model.onnx')
for (let time = 0; time < times; time++) {
  for (const [from, options] of [
    [path, { optimizedModelFilePath }],
    [optimizedModelFilePath, { graphOptimizationLevel: 'disabled' }],
  ]) {
    const session = await InferenceSession.create(from, { ...options, logSeverityLevel: 4 })
    await session.run(rowsOf(1))
    await session.release()
  }
}
if (runs.length > 0) {
  const session = await InferenceSession.create(path)
  for (const rows of runs) await session.run(rowsOf(rows))
}
rmSync(dir, { recursive: true })
process.send({}, () => process.disconnect())
