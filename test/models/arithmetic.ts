import { type GraphBuilder, graph } from './builder.ts'
import type { ElementType } from './builder.ts'
import { modelPath } from './cache.ts'
import { elementTypeCode } from './element-type.ts'
import { mulberry32, uniform } from './random.ts'

/** sum = a + b and difference = a - b, all ['N', 16]. */
export function addSub(type: ElementType): string {
  return modelPath(`add-sub-${type}`, () =>
    graph('add-sub')
      .input('a', type, ['N', 16])
      .input('b', type, ['N', 16])
      .output('sum', type, ['N', 16])
      .output('difference', type, ['N', 16])
      .node('Add', ['a', 'b'], ['sum'])
      .node('Sub', ['a', 'b'], ['difference'])
      .build(),
  )
}

/** y = a + b where a is float32 ['N', 4], b is int64 ['N', 1] and y is float32 ['N', 4]. */
export function twoInputsDifferentTypes(): string {
  return modelPath('two-inputs-different-types', () =>
    graph('two-inputs-different-types')
      .input('a', 'float32', ['N', 4])
      .input('b', 'int64', ['N', 1])
      .output('y', 'float32', ['N', 4])
      .node('Cast', ['b'], ['b_float'], { to: elementTypeCode.float32 })
      .node('Add', ['a', 'b_float'], ['y'])
      .build(),
  )
}

/**
 * y = x + w, where w (float32 [4]) is a graph input with a default (1, 2, 3, 4), as exporters before 2019 declared all
 * weights; x and y are ['N', 4].
 */
export function defaultedInput(): string {
  return modelPath('defaulted-input', () =>
    graph('defaulted-input')
      .input('x', 'float32', ['N', 4])
      .input('w', 'float32', [4])
      .output('y', 'float32', ['N', 4])
      .initializer('w', 'float32', [4], [1, 2, 3, 4])
      .node('Add', ['x', 'w'], ['y'])
      .build(),
  )
}

/** y = a followed by b, string by string; all ['N', 2]. */
export function stringConcat(): string {
  return modelPath('string-concat', () =>
    graph('string-concat')
      .input('a', 'string', ['N', 2])
      .input('b', 'string', ['N', 2])
      .output('y', 'string', ['N', 2])
      .node('StringConcat', ['a', 'b'], ['y'])
      .build({ opset: 20, irVersion: 9 }),
  )
}

/**
 * y ['N', 1, 4] holds the row of an 8 x 4 table (0, 1, 2 ... 31) that `index` (int64 ['N', 1]) names. An index
 * outside -8..7 makes the run fail, with every other row of its batch. The table may have other rows than 8.
 */
export function gatherRow(rows = 8): string {
  return modelPath(`gather-row-${rows}`, () =>
    graph('gather-row')
      .input('index', 'int64', ['N', 1])
      .output('y', 'float32', ['N', 1, 4])
      .initializer(
        'table',
        'float32',
        [rows, 4],
        Array.from({ length: 4 * rows }, (_, i) => i),
      )
      .node('Gather', ['table', 'index'], ['y'], { axis: 0 })
      .build(),
  )
}

/** y = x * x, element by element; both are float32 ['N', 4]. */
export function elementSquares(): string {
  return modelPath('element-squares', () =>
    graph('element-squares')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .node('Mul', ['x', 'x'], ['y'])
      .build(),
  )
}

/** y = x x, both ['A', 'A']: one operator, which takes some seconds of one core for 4500 by 4500 float64. */
export function squared(type: 'float32' | 'float64' = 'float32'): string {
  const name = type === 'float32' ? 'squared' : `squared-${type}`
  return modelPath(name, () =>
    graph(name)
      .input('x', type, ['A', 'A'])
      .output('y', type, ['A', 'A'])
      .node('MatMul', ['x', 'x'], ['y'])
      .build(),
  )
}

/**
 * y = x · W · W ... (`repeats` times), x and y ['N', size]: a run whose time grows with size² · repeats. On one core
 * `matmulSlow(512, 100)` takes 1.5 ms for one row and 5 ms for eight, `matmulSlow(512, 4000)` 50 and 150 ms. W only
 * moves the elements by one place, so that y is x rotated by `repeats` (mod size). Opening it prepares W for each
 * product: that of 1024 and 200 takes half a second of one core, where {@link matmulLoop} takes 10 ms.
 */
export function matmulSlow(size: number, repeats: number): string {
  const name = `matmul-slow-${size}-${repeats}`
  return modelPath(name, () => {
    const value = (step: number) => (step === 0 ? 'x' : step === repeats ? 'y' : `x${step}`)
    const model = rotation(name, size)
    for (let step = 0; step < repeats; step++) model.node('MatMul', [value(step), 'w'], [value(step + 1)])
    return model.build()
  })
}

/** As {@link matmulSlow}, by a loop over one product: a run takes as long and can be stopped as often, and it opens at once. */
export function matmulLoop(size: number, repeats: number): string {
  const name = `matmul-loop-${size}-${repeats}`
  return modelPath(name, () => {
    const body = graph('body')
      .input('step', 'int64', [])
      .input('goes-on', 'bool', [])
      .input('from', 'float32', ['N', size])
      .output('on', 'bool', [])
      .output('to', 'float32', ['N', size])
      .node('Identity', ['goes-on'], ['on'])
      .node('MatMul', ['from', 'w'], ['to'])
      .subgraph()
    return rotation(name, size)
      .initializer('times', 'int64', [], [repeats])
      .node('Loop', ['times', '', 'x'], ['y'], { body })
      .build()
  })
}

/** x and y, and the W that moves the elements of a row by one place. */
function rotation(name: string, size: number): GraphBuilder {
  const weights = new Float32Array(size * size)
  for (let row = 0; row < size; row++) weights[row * size + ((row + 1) % size)] = 1
  return graph(name)
    .input('x', 'float32', ['N', size])
    .output('y', 'float32', ['N', size])
    .initializer('w', 'float32', [size, size], weights)
}

/** As {@link matmulSlow}, each product with weights of its own: size² · repeats of 4 bytes, 64 MB for 512 and 64. */
export function matmulMany(size: number, repeats: number): string {
  const name = `matmul-many-${size}-${repeats}`
  return modelPath(name, () => {
    const value = (step: number) => (step === 0 ? 'x' : step === repeats ? 'y' : `x${step}`)
    const model = graph(name).input('x', 'float32', ['N', size]).output('y', 'float32', ['N', size])
    for (let step = 0; step < repeats; step++) {
      const weights = new Float32Array(size * size)
      for (let row = 0; row < size; row++) weights[row * size + ((row + 1 + step) % size)] = 1
      model.initializer(`w${step}`, 'float32', [size, size], weights)
      model.node('MatMul', [value(step), `w${step}`], [value(step + 1)])
    }
    return model.build()
  })
}

/** y = x · W with W (16 x 4) in a file beside the model; x is ['N', 16], y ['N', 4]. */
export const withExternalData = (): string => externalData('external-data', true)

/** Like {@link withExternalData}, but the file of the weights does not exist. */
export const missingExternalData = (): string => externalData('external-data-missing', false)

function externalData(name: string, present: boolean): string {
  return modelPath(name, () => {
    const model = graph(name)
      .input('x', 'float32', ['N', 16])
      .output('y', 'float32', ['N', 4])
      .initializer('w', 'float32', [16, 4], uniform(mulberry32(7), 64, 1), { externalFile: `${name}.data` })
      .node('MatMul', ['x', 'w'], ['y'])
    return present ? model.bundle() : model.build()
  })
}

/** y = x + by, element by element of each row: x and y ['N', ...dims], by ['N', 1, ...]. */
export const raised = (dims: readonly number[]): string =>
  modelPath(`raised-${dims.join('-')}`, () =>
    graph('raised')
      .input('x', 'float32', ['N', ...dims])
      .input('by', 'float32', ['N', ...dims.map(() => 1)])
      .output('y', 'float32', ['N', ...dims])
      .node('Add', ['x', 'by'], ['y'])
      .build(),
  )
