import * as plain from 'onnxruntime-node'
import { expect, it } from 'vitest'
import { createOrt, Tensor, type InferenceSession } from '../../src/adapters/ort/ort-exports.ts'
import { addSub } from '../models/arithmetic.ts'
import { timeMajor } from '../models/batch-axes.ts'
import { identityScalar, identityVariable, unknownRank } from '../models/identity.ts'
import { mulberry32 } from '../models/random.ts'
import { gram, mixesRows, nonZero } from '../models/shapes.ts'
import { sharedEngine } from '../support/open.ts'

type Data = NodeJS.TypedArray | readonly string[]

const { InferenceSession: OwnSession } = createOrt(sharedEngine())
const random = mulberry32(13)
const below = (count: number) => Math.floor(random() * count)
const oneOf = <T>(values: readonly T[]): T => values[below(values.length)]!

/** Elements of each type that a tensor can have, by how many there are to be. */
const elements: Record<string, (length: number) => Data> = {
  float32: (length) => Float32Array.from({ length }, () => oneOf([0, -0, NaN, Infinity, random()])),
  float64: (length) => Float64Array.from({ length }, random),
  float16: (length) => Uint16Array.from({ length }, () => 0x3c00 + below(99)),
  int8: (length) => Int8Array.from({ length }, () => below(99) - 50),
  uint8: (length) => Uint8Array.from({ length }, () => below(256)),
  int16: (length) => Int16Array.from({ length }, () => below(99) - 50),
  uint16: (length) => Uint16Array.from({ length }, () => below(99)),
  int32: (length) => Int32Array.from({ length }, () => below(99) - 50),
  uint32: (length) => Uint32Array.from({ length }, () => below(99)),
  int64: (length) => BigInt64Array.from({ length }, () => BigInt(below(99) - 50)),
  uint64: (length) => BigUint64Array.from({ length }, () => BigInt(below(99))),
  bool: (length) => Uint8Array.from({ length }, () => below(2)),
  string: (length) => Array.from({ length }, () => oneOf(['', 'one', 'äß😀', 'two\nlines'])),
}

/** Shapes that go together: a dimension has one length wherever it is named. */
function shapesFor(inputs: readonly InferenceSession.TensorValueMetadata[]): number[][] {
  const lengths = new Map<string | number, number>()
  const lengthOf = (dim: string | number): number => {
    if (typeof dim === 'number') return dim
    if (!lengths.has(dim)) lengths.set(dim, oneOf([0, 1, 1, 2, 5]))
    return lengths.get(dim)!
  }
  return inputs.map(({ shape }) => [...shape.map(lengthOf), ...(below(12) === 0 ? [2] : [])]) // one dimension too many fails
}

/** What a run gives, in words that can be compared: one that fails just fails. */
async function outcome(running: Promise<InferenceSession.ReturnType>): Promise<unknown> {
  const outputs = await running.catch(() => null)
  return outputs === null
    ? 'failed'
    : Object.entries(outputs).map(([name, { type, dims, data }]) => [
        name,
        type,
        [...dims],
        Array.from(data as ArrayLike<unknown>),
      ])
}

/** Where Node has Float16Array (24), onnxruntime-node's own tensors of float16 do not run: its binding reads 0 elements. */
const comparable = Object.keys(elements).filter(
  (type) => type !== 'float16' || !('Float16Array' in globalThis),
)

const models: [string, () => string][] = [
  ...comparable.map((type): [string, () => string] => [
    `two variable dimensions of ${type}`,
    () => identityVariable(type as 'float32'),
  ]),
  ['no dimensions', () => identityScalar('float32')],
  ['any number of dimensions', () => unknownRank('int64')],
  ['two inputs and outputs', () => addSub('float32')],
  ['rows along the second dimension', timeMajor],
  ['rows that mix', mixesRows],
  ['an output of rows by rows', gram],
  ['an output of any number of rows', nonZero],
]

it.each(models)(
  'runs at once of a model with %s give what they give with onnxruntime-node',
  async (_, path) => {
    const [own, expected] = [
      await OwnSession.create(path()),
      await plain.InferenceSession.create(path(), { logSeverityLevel: 4 }),
    ]
    const inputs = own.inputMetadata as InferenceSession.TensorValueMetadata[]
    const runs = Array.from({ length: 12 }, () => {
      const shapes = shapesFor(inputs)
      const data = inputs.map(({ type }, index) =>
        elements[type]!(shapes[index]!.reduce((product, dim) => product * dim, 1)),
      )
      const feeds = (Of: typeof Tensor) =>
        Object.fromEntries(
          inputs.map(({ name, type }, index) => [
            name,
            new Of(type as 'float32', data[index] as Float32Array, shapes[index]),
          ]),
        )
      const names = own.outputNames.filter(() => below(2) === 0)
      const fetches = oneOf([
        undefined,
        names.length === 0 ? undefined : names,
        Object.fromEntries(names.map((name) => [name, null])),
      ])
      const run = (session: InferenceSession, Of: typeof Tensor) =>
        outcome(fetches === undefined ? session.run(feeds(Of)) : session.run(feeds(Of), fetches as string[]))
      return {
        own: run(own, Tensor),
        expected: run(expected as InferenceSession, plain.Tensor as typeof Tensor),
      }
    })
    for (const run of runs) expect(await run.own).toEqual(await run.expected)
    await Promise.all([own.release(), expected.release()])
  },
)
