import type { FunctionHere, FunctionOptions } from '../config/function-config.ts'
import type { FunctionBatch, FunctionContext } from '../config/function-module.ts'
import type { FunctionDeclaration } from '../config/function-tensor.ts'
import { invalidArgument } from '../errors.ts'
import { highest } from '../highest-scores.ts'
import { softmaxRow } from './softmax.ts'

/** Options of {@link topK} and {@link classification}. */
export interface TopKOptions {
  /** How many classes; a request with fewer is rejected. Default 1. */
  readonly count?: number
  /** Names of the classes, by index. Left out: `labels` are empty. */
  readonly labels?: readonly string[]
}

type Inputs<Name extends string> = readonly [{ readonly name: Name; readonly type: 'float32'; readonly dims: readonly ['classes'] }]
type Outputs = readonly [
  { readonly name: 'values'; readonly type: 'float32'; readonly dims: readonly number[] },
  { readonly name: 'indices'; readonly type: 'int64'; readonly dims: readonly number[] },
  { readonly name: 'labels'; readonly type: 'string'; readonly dims: readonly number[] },
]
type TopK<Name extends string> = FunctionOptions<Inputs<Name>, Outputs> & FunctionHere<Inputs<Name>, Outputs>

/**
 * The configuration of a function that gives the `count` highest of `scores`, float32 `[classes]`: their `values`, `indices` and
 * `labels`, the highest first. Run by the application's thread.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for a count that is no whole number of at least 1.
 */
export function topK(options: TopKOptions = {}): TopK<'scores'> {
  return declared('scores', options, ({ scores }, context) => best(scores.data, scores.dims[1]!, context, options))
}

/** As {@link topK} of the {@link softmax} of `logits`: what a classifier's head gives, as classes. */
export function classification(options: TopKOptions = {}): TopK<'logits'> {
  return declared('logits', options, ({ logits }, context) => {
    const probabilities = new Float32Array(logits.data.length)
    const classes = logits.dims[1]!
    for (let row = 0; row < context.rows; row++) softmaxRow(logits.data, probabilities, row * classes, (row + 1) * classes)
    return best(probabilities, classes, context, options)
  })
}

interface Best {
  readonly values: Float32Array
  readonly indices: BigInt64Array
  readonly labels: string[]
}

function best(scores: Float32Array, classes: number, { rows, fail }: FunctionContext<undefined>, { count = 1, labels = [] }: TopKOptions): Best {
  const found: Best = { values: new Float32Array(rows * count), indices: new BigInt64Array(rows * count), labels: Array.from({ length: rows * count }, () => '') }
  for (let row = 0; row < rows; row++) {
    if (classes < count) fail(row, `there are ${classes} classes, where the ${count} highest are asked for`)
    for (const [place, at] of highest(scores, row * classes, (row + 1) * classes, count).entries()) {
      const index = at - row * classes
      found.values[row * count + place] = scores[at]!
      found.indices[row * count + place] = BigInt(index)
      found.labels[row * count + place] = labels[index] ?? ''
    }
  }
  return found
}

type Run<Name extends string> = (batch: FunctionBatch<FunctionDeclaration<Inputs<Name>, Outputs>>, context: FunctionContext<undefined>) => Best

function declared<Name extends string>(name: Name, { count = 1 }: TopKOptions, run: Run<Name>): TopK<Name> {
  if (!Number.isSafeInteger(count) || count < 1) throw invalidArgument('count', 'a whole number of at least 1', count)
  return {
    inputs: [{ name, type: 'float32', dims: ['classes'] }],
    outputs: [
      { name: 'values', type: 'float32', dims: [count] },
      { name: 'indices', type: 'int64', dims: [count] },
      { name: 'labels', type: 'string', dims: [count] },
    ],
    run: run as TopK<Name>['run'],
  }
}
