import type { FunctionHere, FunctionOptions } from '../config/function-config.ts'

type Inputs = readonly [{ readonly name: 'logits'; readonly type: 'float32'; readonly dims: readonly ['classes'] }]
type Outputs = readonly [{ readonly name: 'probabilities'; readonly type: 'float32'; readonly dims: readonly ['classes'] }]

/** Writes the softmax of `logits[start, end)` to the same place. */
export function softmaxRow(logits: Float32Array, probabilities: Float32Array, start: number, end: number): void {
  let largest = -Infinity
  for (let at = start; at < end; at++) if (logits[at]! > largest) largest = logits[at]!
  let sum = 0
  for (let at = start; at < end; at++) sum += probabilities[at] = Math.exp(logits[at]! - largest)
  for (let at = start; at < end; at++) probabilities[at]! /= sum
}

/**
 * The configuration of a function that turns `logits`, float32 `[classes]`, into `probabilities` of the same dims. Run by the
 * application's thread.
 */
export function softmax(): FunctionOptions<Inputs, Outputs> & FunctionHere<Inputs, Outputs> {
  return {
    inputs: [{ name: 'logits', type: 'float32', dims: ['classes'] }],
    outputs: [{ name: 'probabilities', type: 'float32', dims: ['classes'] }],
    run: ({ logits: { data, dims } }, { rows }) => {
      const probabilities = new Float32Array(data.length)
      const classes = dims[1]!
      for (let row = 0; row < rows; row++) softmaxRow(data, probabilities, row * classes, (row + 1) * classes)
      return { probabilities: { data: probabilities, dims } }
    },
  }
}
