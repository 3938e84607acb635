import { graph, map, optional, sequence, tensor } from './builder.ts'
import type { BuildOptions, Dims, ElementType } from './builder.ts'
import { modelPath } from './cache.ts'
import { elementTypeCode } from './element-type.ts'
import type { TypeProto } from './proto.ts'

const rows = ['N', 4]
const withFourBitTypes: BuildOptions = { opset: 21, irVersion: 10 }

/** s = the sequence [x, x]; there is no other output. x is float32 ['N', 4]. */
export function sequenceOnly(): string {
  return modelPath('sequence-only', () =>
    graph('sequence-only')
      .input('x', 'float32', rows)
      .output('s', sequence(tensor('float32', rows)))
      .node('SequenceConstruct', ['x', 'x'], ['s'])
      .build(),
  )
}

/** s = the sequence [x, x] and y = x. x is float32 ['N', 4]. */
export function sequenceAndTensor(): string {
  return modelPath('sequence-and-tensor', () =>
    graph('sequence-and-tensor')
      .input('x', 'float32', rows)
      .output('s', sequence(tensor('float32', rows)))
      .output('y', 'float32', rows)
      .node('SequenceConstruct', ['x', 'x'], ['s'])
      .node('Identity', ['x'], ['y'])
      .build(),
  )
}

/** The first tensor of the input sequence s, as y float32 ['N', 4]. */
export function sequenceInput(): string {
  return modelPath('sequence-input', () =>
    graph('sequence-input')
      .input('s', sequence(tensor('float32', rows)))
      .output('y', 'float32', rows)
      .initializer('first', 'int64', [], [0])
      .node('SequenceAt', ['s', 'first'], ['y'])
      .build(),
  )
}

/** o = x as an optional tensor, x being float32 ['N', 4]. */
export function optionalOutput(): string {
  return modelPath('optional-output', () =>
    graph('optional-output')
      .input('x', 'float32', rows)
      .output('o', optional(tensor('float32', rows)))
      .node('Optional', ['x'], ['o'])
      .build(),
  )
}

/** The scores x (float32 ['N', 3]) as a map per row from class (int64) to score, as classifiers return them. */
export function mapOutput(): string {
  return modelPath('map-output', () =>
    graph('map-output')
      .input('x', 'float32', ['N', 3])
      .output('m', sequence(map('int64', tensor('float32', []))))
      .node('ai.onnx.ml:ZipMap', ['x'], ['m'], { classlabels_int64s: [0, 1, 2] })
      .build({ domains: { 'ai.onnx.ml': 3 } }),
  )
}

/** q = x rounded to int4 and y = x, all ['N', 4]. */
export function int4Output(): string {
  return modelPath('int4-output', () =>
    graph('int4-output')
      .input('x', 'float32', rows)
      .output('q', 'int4', rows)
      .output('y', 'float32', rows)
      .node('Cast', ['x'], ['q'], { to: elementTypeCode.int4 })
      .node('Identity', ['x'], ['y'])
      .build(withFourBitTypes),
  )
}

/** q = x rounded to int4; there is no other output. */
export function int4OutputOnly(): string {
  return modelPath('int4-output-only', () =>
    graph('int4-output-only')
      .input('x', 'float32', rows)
      .output('q', 'int4', rows)
      .node('Cast', ['x'], ['q'], { to: elementTypeCode.int4 })
      .build(withFourBitTypes),
  )
}

/** y = the int4 input q as float32, both ['N', 4]. */
export function int4Input(): string {
  return modelPath('int4-input', () =>
    graph('int4-input')
      .input('q', 'int4', rows)
      .output('y', 'float32', rows)
      .node('Cast', ['q'], ['y'], { to: elementTypeCode.float32 })
      .build(withFourBitTypes),
  )
}

/** b = x rounded to bfloat16 and y = x, all ['N', 4]. */
export function bfloat16Output(): string {
  return modelPath('bfloat16-output', () =>
    graph('bfloat16-output')
      .input('x', 'float32', rows)
      .output('b', 'bfloat16', rows)
      .output('y', 'float32', rows)
      .node('Cast', ['x'], ['b'], { to: elementTypeCode.bfloat16 })
      .node('Identity', ['x'], ['y'])
      .build(),
  )
}

/** y = the bfloat16 input b as float32, both ['N', 4]. */
export function bfloat16Input(): string {
  return modelPath('bfloat16-input', () =>
    graph('bfloat16-input')
      .input('b', 'bfloat16', rows)
      .output('y', 'float32', rows)
      .node('Cast', ['b'], ['y'], { to: elementTypeCode.float32 })
      .build(),
  )
}

/** y = x (float32) as another type, both ['N', 4] or of `dims`. */
export function castTo(type: ElementType, dims: Dims = rows): string {
  return modelPath(`cast-to-${type}-${dims.join('x')}`, () =>
    graph('cast-to')
      .input('x', 'float32', dims)
      .output('y', type, dims)
      .node('Cast', ['x'], ['y'], { to: elementTypeCode[type] })
      .build(withFourBitTypes),
  )
}

/** y = x as float32, both ['N', 4] or of `dims`. */
export function castFrom(type: ElementType, dims: Dims = rows): string {
  return modelPath(`cast-from-${type}-${dims.join('x')}`, () =>
    graph('cast-from')
      .input('x', type, dims)
      .output('y', 'float32', dims)
      .node('Cast', ['x'], ['y'], { to: elementTypeCode.float32 })
      .build(withFourBitTypes),
  )
}

/** y = the running sums of x over the rows, as another type: rows depend on each other. Both ['N', 4]. */
export function runningSumsAs(type: ElementType): string {
  return modelPath(`running-sums-as-${type}`, () =>
    graph('running-sums')
      .input('x', 'float32', rows)
      .output('y', type, rows)
      .initializer('axis', 'int64', [], [0])
      .node('CumSum', ['x', 'axis'], ['sums'])
      .node('Cast', ['sums'], ['y'], { to: elementTypeCode[type] })
      .build(withFourBitTypes),
  )
}

/** The rows of x (float32 ['N', 4]) as a sequence: an entry for each. */
export function rowsAsSequence(): string {
  return modelPath('rows-as-sequence', () =>
    graph('rows-as-sequence')
      .input('x', 'float32', rows)
      .output('s', sequence(tensor('float32', [4])))
      .node('SplitToSequence', ['x'], ['s'], { axis: 0, keepdims: 0 })
      .build(),
  )
}

/** s = the words of a row ([text, 'b']) as a sequence of two tensors of strings; x is string ['N']. */
export function stringsAsSequence(): string {
  return modelPath('strings-as-sequence', () =>
    graph('strings-as-sequence')
      .input('x', 'string', ['N'])
      .output('s', sequence(tensor('string')))
      .initializer('b', 'string', [1], ['b'])
      .node('SequenceConstruct', ['x', 'b'], ['s'])
      .build(),
  )
}

/** o is the optional input i as it is, and has whether there is one; of the given type. */
export function optionalAsIs(name: string, type: TypeProto): string {
  return modelPath(`optional-as-is-${name}`, () =>
    graph('optional-as-is')
      .input('i', optional(type))
      .output('o', optional(type))
      .output('has', 'bool', [])
      .node('Identity', ['i'], ['o'])
      .node('OptionalHasElement', ['i'], ['has'])
      .build({ opset: 18 }),
  )
}

/** y = the tensors of the input sequence s one behind the other, and n how many there are; int64. */
export function joinedSequence(): string {
  return modelPath('joined-sequence', () =>
    graph('joined-sequence')
      .input('s', sequence(tensor('int64', ['N'])))
      .output('y', 'int64', ['M'])
      .output('n', 'int64', [])
      .node('ConcatFromSequence', ['s'], ['y'], { axis: 0 })
      .node('SequenceLength', ['s'], ['n'])
      .build(),
  )
}

/** y = the values of the map m of string to float32 at 'a', 'b' and 'c', 0 where there is none; [1, 3]. */
export function mapInput(): string {
  return modelPath('map-input', () =>
    graph('map-input')
      .input('m', map('string', tensor('float32', [])))
      .output('y', 'float32', [1, 3])
      .node('ai.onnx.ml:DictVectorizer', ['m'], ['y'], { string_vocabulary: ['a', 'b', 'c'] })
      .build({ domains: { 'ai.onnx.ml': 3 } }),
  )
}

/** y = the values of the map m of int64 to float32 in the order of its keys; [1, 'K']. */
export function integerMapInput(): string {
  return modelPath('integer-map-input', () =>
    graph('integer-map-input')
      .input('m', map('int64', tensor('float32', [])))
      .output('y', 'float32', [1, 4])
      .node('ai.onnx.ml:CastMap', ['m'], ['y'], { cast_to: 'TO_FLOAT', map_form: 'SPARSE', max_map: 4 })
      .build({ domains: { 'ai.onnx.ml': 3 } }),
  )
}
