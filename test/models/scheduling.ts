import { graph } from './builder.ts'
import type { ElementType } from './builder.ts'
import { modelPath } from './cache.ts'
import { elementTypeCode } from './element-type.ts'
import { encodeModel } from './proto.ts'
import type { NodeProto } from './proto.ts'
import { mulberry32, uniform } from './random.ts'
import { tensor } from './value-type.ts'

/**
 * Sequences of any length: x is float32 ['N', 'L', 4] and `mask` ['N', 'L'] says which positions count. `positions`
 * ['N', 'L', 2] = x · W, position by position, and `sum` ['N', 1] = the sum of what the mask leaves of x.
 */
export function maskedSequence(mask: ElementType): string {
  return modelPath(`masked-sequence-${mask}`, () =>
    graph('masked-sequence')
      .input('x', 'float32', ['N', 'L', 4])
      .input('mask', mask, ['N', 'L'])
      .output('positions', 'float32', ['N', 'L', 2])
      .output('sum', 'float32', ['N', 1])
      .initializer('w', 'float32', [4, 2], uniform(mulberry32(3), 8, 1))
      .initializer('last', 'int64', [1], [2])
      .initializer('inner', 'int64', [2], [1, 2])
      .initializer('second', 'int64', [1], [1])
      .node('MatMul', ['x', 'w'], ['positions'])
      .node('Cast', ['mask'], ['weights'], { to: elementTypeCode.float32 })
      .node('Unsqueeze', ['weights', 'last'], ['columns'])
      .node('Mul', ['x', 'columns'], ['kept'])
      .node('ReduceSum', ['kept', 'inner'], ['sums'], { keepdims: 0 })
      .node('Unsqueeze', ['sums', 'second'], ['sum'])
      .build(),
  )
}

/** yA = -a and yB = -b, where a and yA are float32 ['N', 'A'], b and yB ['N', 'B']: two lengths that vary apart. */
export function twoLengths(): string {
  return modelPath('two-lengths', () =>
    graph('two-lengths')
      .input('a', 'float32', ['N', 'A'])
      .input('b', 'float32', ['N', 'B'])
      .output('yA', 'float32', ['N', 'A'])
      .output('yB', 'float32', ['N', 'B'])
      .node('Neg', ['a'], ['yA'])
      .node('Neg', ['b'], ['yB'])
      .build(),
  )
}

/**
 * y = x + bias where a bias is given, else y = x; all float32 ['N', width]. An operator that merely declares an input as
 * optional is no use here: ONNX Runtime wants whatever a graph names. The graph itself has to ask whether it is there.
 */
export function optionalBias(width: 4 | 'L' = 4): string {
  return modelPath(`optional-bias-${width}`, () => {
    const rows = (name: string) => ({ name, type: tensor('float32', ['N', width]) })
    const node = (opType: string, input: string[], output: string): NodeProto => ({
      name: output,
      opType,
      input,
      output: [output],
      attribute: [],
    })
    const branch = (name: string, made: NodeProto) => ({
      name,
      type: 5,
      g: { name, node: [made], initializer: [], input: [], output: [rows(made.name)], valueInfo: [] },
    })
    const branches = [
      branch('then_branch', node('Add', ['x', 'bias'], 'moved')),
      branch('else_branch', node('Identity', ['x'], 'same')),
    ]
    const choice = { ...node('If', ['given'], 'y'), attribute: branches }
    const nodes = [node('OptionalHasElement', ['bias'], 'given'), choice]
    return encodeModel({
      irVersion: 8,
      producerName: 'zerohop-test',
      graph: {
        name: 'optional-bias',
        node: nodes,
        initializer: [],
        input: [rows('x'), rows('bias')],
        output: [rows('y')],
        valueInfo: [],
      },
      opsetImport: [{ domain: '', version: 18 }],
      metadataProps: [],
    })
  })
}
