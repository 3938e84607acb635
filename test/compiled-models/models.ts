import { graph } from '../models/builder.ts'
import { modelPath } from '../models/cache.ts'
import { heWeights, mulberry32 } from '../models/random.ts'

const [width, classes] = [64, 8]

/** A perceptron: x float32 ['N', 64] to y float32 ['N', 8], with other weights for each seed. */
export function perceptron(seed = 1): string {
  return modelPath(`cached-perceptron-${seed}`, () => layers(seed).build())
}

/** The same of 9 MB. */
export function largePerceptron(): string {
  return modelPath('cached-perceptron-large', () => layers(1, undefined, 'y', 32_768).build())
}

/** The same of 38 MB, which takes a while to open. */
export function wide(): string {
  return modelPath('cached-perceptron-wide', () => layers(1, undefined, 'y', 131_072).build())
}

/** The same with a mean of all rows that is never added, so that only runs show that its rows are independent. */
export function unfollowed(): string {
  return modelPath('cached-unfollowed-mean', () => {
    const branch = (name: string, operator: string, attributes = {}) =>
      graph(name)
        .output(`${name}-y`, 'float32', ['N', classes])
        .node(operator, ['z'], [`${name}-y`], attributes)
        .subgraph()
    return layers(1, undefined, 'z')
      .output('y', 'float32', ['N', classes])
      .initializer('one', 'float32', [], [1])
      .node('Sin', ['one'], ['sine'])
      .node('Less', ['one', 'sine'], ['never'])
      .node('If', ['never'], ['y'], {
        then_branch: branch('then', 'ReduceMean', { axes: [0] }),
        else_branch: branch('else', 'Identity'),
      })
      .build()
  })
}

/** The same with its weights in a file beside it. */
export function perceptronOutside(seed = 1): string {
  return modelPath(`cached-perceptron-outside-${seed}`, () =>
    layers(seed, `cached-perceptron-outside-${seed}.bin`).bundle(),
  )
}

/** One row of x. */
export const row = (): Float32Array => Float32Array.from({ length: width }, (_, index) => Math.sin(index + 1))

function layers(seed: number, externalFile?: string, last = 'y', hidden = 256) {
  const random = mulberry32(seed)
  const outside = externalFile === undefined ? {} : { externalFile }
  const model = graph('cached-perceptron').input('x', 'float32', ['N', width])
  if (last === 'y') model.output('y', 'float32', ['N', classes])
  return model
    .initializer('first', 'float32', [width, hidden], heWeights(random, width, hidden), outside)
    .initializer('second', 'float32', [hidden, classes], heWeights(random, hidden, classes), outside)
    .node('MatMul', ['x', 'first'], ['hidden'])
    .node('Relu', ['hidden'], ['active'])
    .node('MatMul', ['active', 'second'], [last])
}

/** Ends the process in which it is opened: the smallest constant there is is divided by -1, and the largest is one less than that. */
export function deadlyToOpen(): string {
  return modelPath('cached-deadly-quotient', () =>
    graph('deadly-to-open')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .initializer('smallest', 'int32', [1], [-(2 ** 31)])
      .initializer('minus one', 'int32', [1], [-1])
      .node('Div', ['smallest', 'minus one'], ['quotient'])
      .node('Cast', ['quotient'], ['as float'], { to: 1 })
      .node('Add', ['x', 'as float'], ['y'])
      .build(),
  )
}

/** Never answers: x float32 ['N', 4] is added to itself in a loop that has no end to speak of. */
export function endless(): string {
  return modelPath('cached-endless', () => {
    const body = graph('body')
      .input('count', 'int64', [])
      .input('goes on', 'bool', [])
      .input('before', 'float32', ['N', 4])
      .output('goes on again', 'bool', [])
      .output('after', 'float32', ['N', 4])
      .node('Identity', ['goes on'], ['goes on again'])
      .node('Add', ['before', 'before'], ['after'])
      .subgraph()
    return graph('endless')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .initializer('times', 'int64', [], [2 ** 50])
      .initializer('yes', 'bool', [], [1])
      .node('Loop', ['times', 'yes', 'x'], ['y'], { body })
      .build()
  })
}
