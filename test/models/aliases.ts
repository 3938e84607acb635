import { graph } from './builder.ts'
import { modelPath } from './cache.ts'
import { elementTypeCode } from './element-type.ts'

/**
 * Models with outputs that no kernel has to write: they are inputs or constants of the graph, or share the memory of
 * another value. `x` is float32 ['N', 4] unless said otherwise.
 */

const rows = ['N', 4]

/** Outputs x and y of the input x: x is given back as it is, y = x. */
export function inputAsOutput(): string {
  return modelPath('input-as-output', () =>
    graph('input-as-output')
      .input('x', 'float32', rows)
      .output('x', 'float32', rows)
      .output('y', 'float32', rows)
      .node('Identity', ['x'], ['y'])
      .build(),
  )
}

/** The same for x of any length, ['N', 'L']. */
export function variableInputAsOutput(): string {
  return modelPath('variable-input-as-output', () =>
    graph('variable-input-as-output')
      .input('x', 'float32', ['N', 'L'])
      .output('x', 'float32', ['N', 'L'])
      .output('y', 'float32', ['N', 'L'])
      .node('Neg', ['x'], ['y'])
      .build(),
  )
}

/** A constant as output `c` [4], one that is computed as the model is loaded as `folded` [4], and y = x for x [4]. */
export function constantOutputs(): string {
  return modelPath('constant-outputs', () =>
    graph('constant-outputs')
      .input('x', 'float32', [4])
      .output('c', 'float32', [4])
      .output('folded', 'float32', [4])
      .output('same', 'float32', [4])
      .output('y', 'float32', [4])
      .initializer('c', 'float32', [4], [1, 2, 3, 4])
      .node('Add', ['c', 'c'], ['folded'])
      .node('Identity', ['c'], ['same'])
      .node('Identity', ['x'], ['y'])
      .build(),
  )
}

/** y, z, flat and deep all equal x: chains of operators that change nothing but the shape, or nothing. */
export function sharedMemory(): string {
  return modelPath('shared-memory', () =>
    graph('shared-memory')
      .input('x', 'float32', rows)
      .output('y', 'float32', rows)
      .output('z', 'float32', ['N', 4])
      .output('columns', 'float32', ['N', 4, 1])
      .output('flat', 'float32', rows)
      .output('cast', 'float32', rows)
      .output('dropped', 'float32', rows)
      .initializer('last', 'int64', [1], [2])
      .initializer('shape', 'int64', [2], [-1, 4])
      .node('Identity', ['x'], ['once'])
      .node('Identity', ['once'], ['y'])
      .node('Identity', ['once'], ['twice'])
      .node('Unsqueeze', ['twice', 'last'], ['columns'])
      .node('Squeeze', ['columns', 'last'], ['z'])
      .node('Reshape', ['columns', 'shape'], ['flat'])
      .node('Cast', ['x'], ['cast'], { to: elementTypeCode.float32 })
      .node('Dropout', ['x'], ['dropped'])
      .build(),
  )
}

/** h = -x, and y and z = h: one value that is written, under three names. */
export function valueOfThreeNames(): string {
  return modelPath('value-of-three-names', () =>
    graph('value-of-three-names')
      .input('x', 'float32', rows)
      .output('h', 'float32', rows)
      .output('y', 'float32', rows)
      .output('z', 'float32', rows)
      .node('Neg', ['x'], ['h'])
      .node('Identity', ['h'], ['y'])
      .node('Identity', ['h'], ['z'])
      .build(),
  )
}

/** One of two values from outside of a branch: y = x when the bool `first` [] is true, else the constant 1, 2, 3, 4; x is [4]. */
export function outerValues(): string {
  return modelPath('outer-values', () => {
    const branch = (name: string, from: string) =>
      graph(name)
        .output(`${name}-y`, 'float32', [4])
        .node('Identity', [from], [`${name}-y`])
        .subgraph()
    return graph('outer-values')
      .input('first', 'bool', [])
      .input('x', 'float32', [4])
      .output('y', 'float32', [4])
      .initializer('c', 'float32', [4], [1, 2, 3, 4])
      .node('If', ['first'], ['y'], { then_branch: branch('then', 'x'), else_branch: branch('else', 'c') })
      .build()
  })
}

/** y = x doubled `times` ([], int64) times, and `all` ['T', 4] what it was after each: none for 0 times. x is [4]. */
export function doubledInLoop(): string {
  return modelPath('doubled-in-loop', () => {
    const body = graph('body')
      .input('time', 'int64', [])
      .input('go', 'bool', [])
      .input('before', 'float32', [4])
      .output('on', 'bool', [])
      .output('after', 'float32', [4])
      .output('seen', 'float32', [4])
      .node('Identity', ['go'], ['on'])
      .node('Add', ['before', 'before'], ['after'])
      .node('Identity', ['after'], ['seen'])
      .subgraph()
    return graph('doubled-in-loop')
      .input('times', 'int64', [])
      .input('x', 'float32', [4])
      .output('y', 'float32', [4])
      .output('all', 'float32', ['T', 4])
      .initializer('yes', 'bool', [], [1])
      .node('Loop', ['times', 'yes', 'x'], ['y', 'all'], { body })
      .build()
  })
}

/** nothing ['N', 0] and none [0]: outputs without elements, and y = x beside them. */
export function outputsWithoutElements(): string {
  return modelPath('outputs-without-elements', () =>
    graph('outputs-without-elements')
      .input('x', 'float32', rows)
      .output('nothing', 'float32', ['N', 0])
      .output('y', 'float32', rows)
      .initializer('start', 'int64', [1], [0])
      .initializer('axis', 'int64', [1], [1])
      .node('Slice', ['x', 'start', 'start', 'axis'], ['nothing'])
      .node('Identity', ['x'], ['y'])
      .build(),
  )
}

/** One output with another's name: y = x, twice. */
export function outputNamedTwice(): string {
  return modelPath('output-named-twice', () =>
    graph('output-named-twice')
      .input('x', 'float32', rows)
      .output('y', 'float32', rows)
      .output('y', 'float32', rows)
      .node('Identity', ['x'], ['y'])
      .build(),
  )
}

/** An input and two outputs of the given names: the first output = -input, the second = the input itself. */
export function named(input: string, negative: string, same: string): string {
  return modelPath(`named-${Buffer.from([input, negative, same].join()).toString('hex')}`, () =>
    graph('named')
      .input(input, 'float32', rows)
      .output(negative, 'float32', rows)
      .output(same, 'float32', rows)
      .node('Neg', [input], [negative])
      .node('Identity', [input], [same])
      .build(),
  )
}
