import { graph } from './builder.ts'
import { modelPath } from './cache.ts'

/** A model whose operator exists in no version of ONNX. */
export const unknownOperator = (): string => withOperator('unknown-operator', 'NoSuchOperator')

/** A model whose operator comes from a domain that nobody has registered. */
export const unknownDomain = (): string => withOperator('unknown-domain', 'com.example.absent:Identity')

/** A valid model of an operator, Conv of float64, for which ONNX Runtime has no kernel on the CPU; `name` is that of its file. */
export function missingKernel(name = 'missing-kernel'): string {
  return modelPath(name, () =>
    graph('missing-kernel')
      .input('x', 'float64', ['N', 1, 4, 4])
      .output('y', 'float64', ['N', 1, 4, 4])
      .initializer('w', 'float64', [1, 1, 1, 1], new Float64Array(1))
      .node('Conv', ['x', 'w'], ['y'])
      .build(),
  )
}

/** The first half of a valid model. */
export function truncated(): string {
  return modelPath('truncated', () => {
    const whole = graph('truncated')
      .input('x', 'float32', ['N', 64])
      .output('y', 'float32', ['N', 64])
      .initializer('w', 'float32', [64, 64], new Float32Array(64 * 64))
      .node('MatMul', ['x', 'w'], ['y'])
      .build()
    return whole.subarray(0, whole.byteLength / 2)
  })
}

/** A text file that is called a model. */
export const notOnnx = (): string => modelPath('not-onnx', () => Buffer.from('This is not a model.\n'))

/** A file without a single byte. */
export const emptyFile = (): string => modelPath('empty-file', () => new Uint8Array())

function withOperator(name: string, op: string): string {
  return modelPath(name, () =>
    graph(name)
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .node(op, ['x'], ['y'])
      .build({ domains: { 'com.example.absent': 1 } }),
  )
}
