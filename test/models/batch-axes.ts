import { graph } from './builder.ts'
import { modelPath } from './cache.ts'

/** scaled = x * scale, sum = the sum of that over the first dimension: x [2, 'N', 3], scale [1], scaled [2, 'N', 3], sum ['N', 3]. */
export const scaledColumns = (): string =>
  modelPath('scaled-columns', () =>
    graph('scaled-columns')
      .input('x', 'float32', [2, 'N', 3])
      .input('scale', 'float32', [1])
      .output('scaled', 'float32', [2, 'N', 3])
      .output('sum', 'float32', ['N', 3])
      .initializer('axes', 'int64', [1], [0n])
      .node('Mul', ['x', 'scale'], ['scaled'])
      .node('ReduceSum', ['scaled', 'axes'], ['sum'], { keepdims: 0 })
      .build(),
  )

/** y = x * scale: x and y [2, 'N', 1024], scale [1]; rows large enough to be run where they are, if they lay together. */
export const scaledBlocks = (): string =>
  modelPath('scaled-blocks', () =>
    graph('scaled-blocks')
      .input('x', 'float32', [2, 'N', 1024])
      .input('scale', 'float32', [1])
      .output('y', 'float32', [2, 'N', 1024])
      .node('Mul', ['x', 'scale'], ['y'])
      .build(),
  )

/** y = x: x ['N', 3], y [1, 'N', 3]. */
export const wrapped = (): string =>
  modelPath('wrapped', () =>
    graph('wrapped')
      .input('x', 'float32', ['N', 3])
      .output('y', 'float32', [1, 'N', 3])
      .initializer('axes', 'int64', [1], [0n])
      .node('Unsqueeze', ['x', 'axes'], ['y'])
      .build(),
  )

/** y = -x, both ['T', 'N', 3]: shapes do not tell which is the batch. */
export const timeMajor = (): string =>
  modelPath('time-major', () =>
    graph('time-major')
      .input('x', 'float32', ['T', 'N', 3])
      .output('y', 'float32', ['T', 'N', 3])
      .node('Neg', ['x'], ['y'])
      .build(),
  )

/** y = x * scale: x and y [2, 'N', 3], scale a scalar. */
export const scaledByOne = (): string =>
  modelPath('scaled-by-one', () =>
    graph('scaled-by-one')
      .input('x', 'float32', [2, 'N', 3])
      .input('scale', 'float32', [])
      .output('y', 'float32', [2, 'N', 3])
      .node('Mul', ['x', 'scale'], ['y'])
      .build(),
  )

/** Scores along a width, as of a reader of lines: x ['N', 3, 'W'], y ['T', 'N', 3]; where `named` is false its batch has no name in y. */
export const transposed = (named = true): string =>
  modelPath(`transposed-${named}`, () =>
    graph('transposed')
      .input('x', 'float32', ['N', 3, 'W'])
      .output('y', 'float32', ['T', named ? 'N' : 'M', 3])
      .node('Transpose', ['x'], ['y'], { perm: [2, 0, 1] })
      .build(),
  )

/** y = sums of x up to each step: x and y ['T', 'N', 3]. total = all of them: ['N', 3]. */
export const summedSteps = (): string =>
  modelPath('summed-steps', () =>
    graph('summed-steps')
      .input('x', 'float32', ['T', 'N', 3])
      .output('y', 'float32', ['T', 'N', 3])
      .output('total', 'float32', ['N', 3])
      .initializer('axis', 'int64', [], [0n])
      .initializer('axes', 'int64', [1], [0n])
      .node('CumSum', ['x', 'axis'], ['y'])
      .node('ReduceSum', ['x', 'axes'], ['total'], { keepdims: 0 })
      .build(),
  )

/** y = x / its largest value, all ['T', 'N', 3]: rows meet along either. */
export const peakOfAll = (): string =>
  modelPath('peak-of-all', () =>
    graph('peak-of-all')
      .input('x', 'float32', ['T', 'N', 3])
      .output('y', 'float32', ['T', 'N', 3])
      .node('ReduceMax', ['x'], ['peak'], { keepdims: 0 })
      .node('Div', ['x', 'peak'], ['y'])
      .build(),
  )

/** all = past and x behind it, of each row: x ['N', 1], past ['N', 'P'], all ['N', 'P1']; as keys and values of attention grow. */
export const growing = (): string =>
  modelPath('growing', () =>
    graph('growing')
      .input('x', 'float32', ['N', 1])
      .input('past', 'float32', ['N', 'P'])
      .output('all', 'float32', ['N', 'P1'])
      .output('sum', 'float32', ['N', 1])
      .initializer('axes', 'int64', [1], [1n])
      .node('Concat', ['past', 'x'], ['all'], { axis: 1 })
      .node('ReduceSum', ['all', 'axes'], ['sum'], { keepdims: 1 })
      .build(),
  )

/** sum = x + before, which is the state; before is as declared, the others ['N', 1]. kept has the rows of x that are more than 0, though declared as all. */
export const addedState = (before: readonly (number | string)[] = ['N', 1]): string =>
  modelPath(`added-state-${before.join('-')}`, () =>
    graph('added-state')
      .input('x', 'float32', ['N', 1])
      .input('before', 'float32', before)
      .output('sum', 'float32', ['N', 1])
      .output('state', 'float32', ['N', 1])
      .output('kept', 'float32', ['N', 1])
      .initializer('zero', 'float32', [1], [0])
      .initializer('axes', 'int64', [1], [1n])
      .node('Add', ['x', 'before'], ['sum'])
      .node('Identity', ['sum'], ['state'])
      .node('Greater', ['x', 'zero'], ['is_more'])
      .node('Squeeze', ['is_more', 'axes'], ['flags'])
      .node('Compress', ['x', 'flags'], ['kept'], { axis: 0 })
      .build(),
  )

/** sum = x + before, which is the state; all ['N', 'T']. */
export const addedSeries = (): string =>
  modelPath('added-series', () =>
    graph('added-series')
      .input('x', 'float32', ['N', 'T'])
      .input('before', 'float32', ['N', 'T'])
      .output('sum', 'float32', ['N', 'T'])
      .output('state', 'float32', ['N', 'T'])
      .node('Add', ['x', 'before'], ['sum'])
      .node('Identity', ['sum'], ['state'])
      .build(),
  )
