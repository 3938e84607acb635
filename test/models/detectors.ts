import { graph, type ElementType } from './builder.ts'
import { modelPath } from './cache.ts'
import { mulberry32 } from './random.ts'

const random = mulberry32(7)
const weights = Array.from({ length: 5 * 16 }, () => random() - 0.5)

/**
 * A detector of up to four boxes in images x ['N', 1, 8, 8], which overlap or score too low in some of them: `selected` as ONNX's
 * NonMaxSuppression has it, int64 ['M', 3]; the boxes that it selects ['M', 4], their scores ['M'], the images that they are in
 * int64 ['M'], how many each image has, int64 ['N']; all of it as rows of one tensor of floats ['M', 6], and the mean of each
 * image ['N', 1].
 */
export const detector = (): string =>
  modelPath('detector', () =>
    graph('detector')
      .input('x', 'float32', ['N', 1, 8, 8])
      .output('selected', 'int64', ['M', 3])
      .output('boxes', 'float32', ['M', 4])
      .output('scores', 'float32', ['M'])
      .output('images', 'int64', ['M'])
      .output('n', 'int64', ['N'])
      .output('rows', 'float32', ['M', 6])
      .output('mean', 'float32', ['N', 1])
      .initializer('weights', 'float32', [5, 1, 4, 4], weights)
      .initializer('per_box', 'int64', [3], [0n, 5n, -1n])
      .initializer('four', 'int64', [1], [4n])
      .initializer('five', 'int64', [1], [5n])
      .initializer('zero', 'int64', [1], [0n])
      .initializer('one', 'int64', [1], [1n])
      .initializer('image_and_box', 'int64', [2], [0n, 2n])
      .initializer('flags', 'int64', [2], [0n, 1n])
      .initializer('most', 'int64', [1], [3n])
      .initializer('overlap', 'float32', [1], [0.3])
      .initializer('least', 'float32', [1], [0.55])
      .initializer('anchors', 'float32', [1, 4, 4], [0, 0, 5, 5, 0, 3, 5, 8, 3, 0, 8, 5, 3, 3, 8, 8])
      .node('Conv', ['x', 'weights'], ['grid'], { kernel_shape: [4, 4], strides: [4, 4] })
      .node('Reshape', ['grid', 'per_box'], ['found'])
      .node('Slice', ['found', 'four', 'five', 'one'], ['logits'])
      .node('Sigmoid', ['logits'], ['all_scores'])
      .node('Slice', ['found', 'zero', 'four', 'one'], ['offsets_first'])
      .node('Transpose', ['offsets_first'], ['offsets'], { perm: [0, 2, 1] })
      .node('Add', ['offsets', 'anchors'], ['all_boxes'])
      .node('NonMaxSuppression', ['all_boxes', 'all_scores', 'most', 'overlap', 'least'], ['selected'])
      .node('Gather', ['selected', 'image_and_box'], ['places'], { axis: 1 })
      .node('GatherND', ['all_boxes', 'places'], ['boxes'])
      .node('GatherND', ['all_scores', 'selected'], ['scores'])
      .node('Gather', ['selected', 'zero'], ['image_column'], { axis: 1 })
      .node('Squeeze', ['image_column', 'one'], ['images'])
      .node('Shape', ['x'], ['shape'])
      .node('Slice', ['shape', 'zero', 'one'], ['count'])
      .node('OneHot', ['images', 'count', 'flags'], ['which'], { axis: -1 })
      .node('ReduceSum', ['which', 'zero'], ['n'], { keepdims: 0 })
      .node('Cast', ['image_column'], ['image_floats'], { to: 1 })
      .node('Unsqueeze', ['scores', 'one'], ['score_column'])
      .node('Concat', ['image_floats', 'boxes', 'score_column'], ['rows'], { axis: 1 })
      .node('ReduceMean', ['x'], ['mean'], { axes: [2, 3], keepdims: 0 })
      .build(),
  )

/**
 * Entries whose rows callers have a say in: each row of x ['N', 2] makes two, whose row is the number in x, counted from its own: of 0
 * that row itself. `entries` of a type ['M', 1], `values` ['M', width] are those of `v` ['N', 2 * width].
 */
export const claimedRows = (type: ElementType = 'float32', code = 1, width = 1): string =>
  modelPath(`claimed-rows-${type}-${width}`, () =>
    graph('claimed-rows')
      .input('x', 'float32', ['N', 2])
      .input('v', 'float32', ['N', 2 * width])
      .output('entries', type, ['M', 1])
      .output('values', 'float32', ['M', width])
      .initializer('as_entries', 'int64', [2], [-1n, 1n])
      .initializer('as_values', 'int64', [2], [-1n, BigInt(width)])
      .initializer('zero', 'int64', [], [0n])
      .initializer('one', 'int64', [], [1n])
      .initializer('axis', 'int64', [1], [1n])
      .node('Shape', ['x'], ['shape'])
      .node('Gather', ['shape', 'zero'], ['count'])
      .node('Range', ['zero', 'count', 'one'], ['numbers'])
      .node('Unsqueeze', ['numbers', 'axis'], ['column'])
      .node('Cast', ['column'], ['own'], { to: 1 })
      .node('Add', ['x', 'own'], ['claimed'])
      .node('Reshape', ['claimed', 'as_entries'], ['floats'])
      .node('Cast', ['floats'], ['entries'], { to: code })
      .node('Reshape', ['v', 'as_values'], ['values'])
      .build(),
  )

/** The same by counts: two entries for each row, of which x ['N', 1] says how many there are; `counts` ['N', 1], `values` ['M'] those of v ['N', 2]. */
export const claimedCounts = (): string =>
  modelPath('claimed-counts', () =>
    graph('claimed-counts')
      .input('x', 'float32', ['N', 1])
      .input('v', 'float32', ['N', 2])
      .output('counts', 'float32', ['N', 1])
      .output('values', 'float32', ['M'])
      .initializer('as_values', 'int64', [1], [-1n])
      .node('Identity', ['x'], ['counts'])
      .node('Reshape', ['v', 'as_values'], ['values'])
      .build(),
  )

/** A recogniser of crops x ['N', 1, 2, 2]: the scores of three classes ['N', 3]. With `rows` it has that many rows in its shapes. */
export const recogniser = (rows: number | 'N' = 'N'): string =>
  modelPath(`recogniser-${rows}`, () =>
    graph('recogniser')
      .input('x', 'float32', [rows, 1, 2, 2])
      .output('y', 'float32', [rows, 3])
      .initializer('flat', 'int64', [2], [0n, 4n])
      .initializer('weights', 'float32', [4, 3], [1, 2, 3, -1, 0.5, 1, 2, 0, 1, -2, 1, 1])
      .node('Reshape', ['x', 'flat'], ['pixels'])
      .node('MatMul', ['pixels', 'weights'], ['z'])
      .node('Tanh', ['z'], ['y'])
      .build(),
  )
