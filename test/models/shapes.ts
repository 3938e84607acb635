import { graph } from './builder.ts'
import { modelPath } from './cache.ts'
import { elementTypeCode } from './element-type.ts'
import { mulberry32, uniform } from './random.ts'

/** The indices of the elements of x (float32 ['N', 4]) that are not 0, as int64 [2, 'nnz']: known by running. */
export function nonZero(): string {
  return modelPath('non-zero', () =>
    graph('non-zero')
      .input('x', 'float32', ['N', 4])
      .output('y', 'int64', [2, 'nnz'])
      .node('NonZero', ['x'], ['y'])
      .build(),
  )
}

/**
 * The rows of x (float32 ['N', 4]) for which `keep` (bool ['N']) is true. The first dimension of y carries the name
 * `rows`: 'K' is the honest declaration, 'N' promises one output row per input row and does not keep that promise.
 */
export function compress(rows: 'K' | 'N' = 'K'): string {
  return modelPath(`compress-${rows}`, () =>
    graph('compress')
      .input('x', 'float32', ['N', 4])
      .input('keep', 'bool', ['N'])
      .output('y', 'float32', [rows, 4])
      .node('Compress', ['x', 'keep'], ['y'], { axis: 0 })
      .build(),
  )
}

/** The distinct values of x (float32 [12], no batch dimension) in ascending order, as y ['U']. */
export function unique(): string {
  return modelPath('unique', () =>
    graph('unique')
      .input('x', 'float32', [12])
      .output('y', 'float32', ['U'])
      .node('Unique', ['x'], ['y'])
      .build(),
  )
}

/** The distinct rows of x (float32 ['N', 4]), as y ['U', 4]. */
export function uniqueRows(): string {
  return modelPath('unique-rows', () =>
    graph('unique')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['U', 4])
      .node('Unique', ['x'], ['y'], { axis: 0 })
      .build(),
  )
}

/**
 * y = x beside x, so rows of 8, although y is declared as ['N', 4] like x (float32). The model is 'plain' about it,
 * so that ONNX Runtime notices when it loads the model, or 'hidden': the width is then computed during the run.
 */
export function lyingShape(how: 'plain' | 'hidden' = 'plain'): string {
  return modelPath(`lying-shape-${how}`, () => {
    const model = graph('lying-shape').input('x', 'float32', ['N', 4]).output('y', 'float32', ['N', 4])
    if (how === 'plain') return model.node('Concat', ['x', 'x'], ['y'], { axis: 1 }).build()
    return model
      .initializer('one_and_two', 'int64', [2], [1, 2])
      .node('Sub', ['x', 'x'], ['zeros'])
      .node('ReduceSum', ['zeros'], ['zero'], { keepdims: 0 })
      .node('Cast', ['zero'], ['zero_int'], { to: elementTypeCode.int64 })
      .node('Add', ['one_and_two', 'zero_int'], ['repeats'])
      .node('Tile', ['x', 'repeats'], ['y'])
      .build()
  })
}

/** Every second element of each row: x is float32 ['N', 'L'], y ['N', 'H'] half as long, though nothing says so. */
export function everySecond(): string {
  return modelPath('every-second', () =>
    graph('every-second')
      .input('x', 'float32', ['N', 'L'])
      .output('y', 'float32', ['N', 'H'])
      .initializer('start', 'int64', [1], [0])
      .initializer('end', 'int64', [1], [2 ** 31])
      .initializer('axis', 'int64', [1], [1])
      .initializer('step', 'int64', [1], [2])
      .node('Slice', ['x', 'start', 'end', 'axis', 'step'], ['y'])
      .build(),
  )
}

/**
 * One step of a recurrent network whose state has the batch on axis 1, so that it cannot be batched on axis 0:
 * stateN [2, 'b', 8] = tanh(state + x · W) and y ['b', 4] = softmax(x + stateN[1] · V), x being ['b', 4].
 */
export function softmaxState(): string {
  return modelPath('softmax-state', () => {
    const random = mulberry32(11)
    return graph('softmax-state')
      .input('x', 'float32', ['b', 4])
      .input('state', 'float32', [2, 'b', 8])
      .output('y', 'float32', ['b', 4])
      .output('stateN', 'float32', [2, 'b', 8])
      .initializer('w', 'float32', [4, 8], uniform(random, 32, 0.5))
      .initializer('v', 'float32', [8, 4], uniform(random, 32, 0.5))
      .initializer('last', 'int64', [], [1])
      .node('MatMul', ['x', 'w'], ['xw'])
      .node('Add', ['state', 'xw'], ['moved'])
      .node('Tanh', ['moved'], ['stateN'])
      .node('Gather', ['stateN', 'last'], ['top'], { axis: 0 })
      .node('MatMul', ['top', 'v'], ['topv'])
      .node('Add', ['x', 'topv'], ['logits'])
      .node('Softmax', ['logits'], ['y'], { axis: -1 })
      .build()
  })
}

/** y ['M', 'N'] = a · bᵀ for a ['M', 4] and b ['N', 4]: variable first dimensions that are not a batch. */
export function pairwise(): string {
  return modelPath('pairwise', () =>
    graph('pairwise')
      .input('a', 'float32', ['M', 4])
      .input('b', 'float32', ['N', 4])
      .output('y', 'float32', ['M', 'N'])
      .node('Transpose', ['b'], ['bT'], { perm: [1, 0] })
      .node('MatMul', ['a', 'bT'], ['y'])
      .build(),
  )
}

/** y ['N', 'N'] = x · xᵀ for x ['N', 4]: every row of y depends on all rows of x. */
export function gram(): string {
  return modelPath('gram', () =>
    graph('gram')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 'N'])
      .node('Transpose', ['x'], ['xT'], { perm: [1, 0] })
      .node('MatMul', ['x', 'xT'], ['y'])
      .build(),
  )
}

/** y = x minus the mean over the batch, x and y ['N', 4]: looks batchable, but rows change each other. */
export function mixesRows(): string {
  return modelPath('mixes-rows', () =>
    graph('mixes-rows')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .node('ReduceMean', ['x'], ['mean'], { axes: [0], keepdims: 1 })
      .node('Sub', ['x', 'mean'], ['y'])
      .build(),
  )
}
