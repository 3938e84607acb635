import { graph } from './builder.ts'
import { modelPath } from './cache.ts'
import { elementTypeCode } from './element-type.ts'

// Models of the shapes that the examples of Triton's clients ask for.

/** OUTPUT0 = INPUT0 + INPUT1 and OUTPUT1 = INPUT0 - INPUT1, all int32 ['N', 16]. */
export const simple = (): string =>
  modelPath('triton-simple', () =>
    graph('simple')
      .input('INPUT0', 'int32', ['N', 16])
      .input('INPUT1', 'int32', ['N', 16])
      .output('OUTPUT0', 'int32', ['N', 16])
      .output('OUTPUT1', 'int32', ['N', 16])
      .node('Add', ['INPUT0', 'INPUT1'], ['OUTPUT0'])
      .node('Sub', ['INPUT0', 'INPUT1'], ['OUTPUT1'])
      .build(),
  )

/** The same of numbers in strings. */
export const simpleString = (): string =>
  modelPath('triton-simple-string', () =>
    graph('simple-string')
      .input('INPUT0', 'string', ['N', 16])
      .input('INPUT1', 'string', ['N', 16])
      .output('OUTPUT0', 'string', ['N', 16])
      .output('OUTPUT1', 'string', ['N', 16])
      .node('Cast', ['INPUT0'], ['a'], { to: elementTypeCode.int64 })
      .node('Cast', ['INPUT1'], ['b'], { to: elementTypeCode.int64 })
      .node('Add', ['a', 'b'], ['sum'])
      .node('Sub', ['a', 'b'], ['difference'])
      .node('Cast', ['sum'], ['OUTPUT0'], { to: elementTypeCode.string })
      .node('Cast', ['difference'], ['OUTPUT1'], { to: elementTypeCode.string })
      .build(),
  )

/** OUTPUT0 = INPUT0, strings ['N', 16]. */
export const simpleIdentity = (): string =>
  modelPath('triton-simple-identity', () =>
    graph('simple-identity')
      .input('INPUT0', 'string', ['N', 16])
      .output('OUTPUT0', 'string', ['N', 16])
      .node('Identity', ['INPUT0'], ['OUTPUT0'])
      .build(),
  )

/** OUTPUT = INPUT + START, int32 ['N', 1]: 1 more where a sequence begins. */
export const simpleSequence = (): string =>
  modelPath('triton-simple-sequence', () =>
    graph('simple-sequence')
      .input('INPUT', 'int32', ['N', 1])
      .input('START', 'int32', ['N', 1])
      .output('OUTPUT', 'int32', ['N', 1])
      .node('Add', ['INPUT', 'START'], ['OUTPUT'])
      .build(),
  )
