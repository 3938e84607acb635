import { graph } from './builder.ts'
import { modelPath } from './cache.ts'

/** sum = x + (start ? 0 : before), id and end as they are given; all ['N', 1]. */
export const accumulator = (): string =>
  modelPath('accumulator', () =>
    graph('accumulator')
      .input('x', 'float32', ['N', 1])
      .input('before', 'float32', ['N', 1])
      .input('START', 'float32', ['N', 1])
      .input('END', 'bool', ['N', 1])
      .input('ID', 'uint64', ['N', 1])
      .output('sum', 'float32', ['N', 1])
      .output('state', 'float32', ['N', 1])
      .output('ended', 'bool', ['N', 1])
      .output('id', 'uint64', ['N', 1])
      .initializer('one', 'float32', [1], [1])
      .node('Sub', ['one', 'START'], ['goes_on'])
      .node('Mul', ['before', 'goes_on'], ['kept'])
      .node('Add', ['x', 'kept'], ['sum'])
      .node('Identity', ['sum'], ['state'])
      .node('Identity', ['END'], ['ended'])
      .node('Identity', ['ID'], ['id'])
      .build(),
  )
