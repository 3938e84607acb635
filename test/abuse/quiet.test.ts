import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { graph } from '../models/builder.ts'
import { modelPath } from '../models/cache.ts'
import { gatherRow, identity, missingKernel, notOnnx } from '../models/small.ts'

/** y = a · b, whose inner lengths only a run compares. */
const product = () =>
  modelPath('product-of-any', () =>
    graph('product-of-any')
      .input('a', 'float32', ['A', 'B'])
      .input('b', 'float32', ['C', 'D'])
      .output('y', 'float32', ['A', 'D'])
      .node('MatMul', ['a', 'b'], ['y'])
      .build(),
  )

it('ONNX Runtime prints nothing about errors that callers get', async () => {
  const models = {
    bad: notOnnx(),
    kernel: missingKernel(),
    good: identity('float32'),
    gather: gatherRow(),
    reshape: product(),
  }
  const fixture = fileURLToPath(new URL('fixtures/quiet.mjs', import.meta.url))
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [fixture, JSON.stringify(models)])
  expect(JSON.parse(stdout)).toEqual([
    'ERR_MODEL_LOAD',
    'ERR_MODEL_LOAD',
    'ERR_MODEL_LOAD',
    'ERR_MODEL_LOAD',
    'ERR_EXECUTION',
    'ERR_MODEL_LOAD',
    'ERR_EXECUTION',
  ])
  expect(stderr).toBe('')
})
