import { InferenceSession, Tensor } from 'onnxruntime-node'
import { fromSmallFloat, toSmallFloat } from '../../src/tensor/small-floats.ts'
import { mulberry32, type Random } from '../models/random.ts'
import { batchAxisOf, type GraphInput, type GraphOutput, type GraphText } from './graph-text.ts'

/** What ONNX Runtime says of joining: f(concat(a, b)) beside concat(f(a), f(b)). */
export interface Truth {
  /** `cannot run`: no request runs alone. `unsure`: rounding alone changes the answers as much as joining does. */
  readonly answer: 'same' | 'differs' | 'cannot run' | 'unsure'
  readonly where: string
  /** Whether no request alone has one entry for each of its rows: joining cannot change what none is answered with. */
  readonly servesNone?: boolean
}

/** Rows of each request. */
const requestRows = [1, 1, 2, 1, 3, 2, 1, 1, 1, 2, 3]
/** Requests that are joined, in order. */
const joined = [
  [0, 1],
  [1, 0],
  [0, 3],
  [1, 3],
  [2, 1, 0],
  [4, 3],
  [3, 4, 5],
  [5, 0],
  [6, 7, 8],
  [9, 6, 7, 1],
  [8, 9, 2],
  [7, 4, 6, 0],
  [2, 5],
  [9, 2],
  [10, 4],
]
/** The first request is the same, and what it is joined with is of one size: its answer must be the same but for the order of sums. */
const beside: readonly (readonly [number, number])[] = [
  [0, 2],
  [1, 3],
]
/** Of the largest value of a row. */
const tolerance = 1e-3
/** Rounding within a graph makes up to this where it takes nearly equal numbers from each other; rows that meet make more for some rows. */
const mostOfRounding = 1e-2
const orderOfSums = 1e-6
/** What rounding of numbers near 1 makes of their differences. */
const smallest = 5e-7
/** Of the rows of all requests, one after the other: quiet ones beside loud ones, beside zeros. */
const scales = [1e-4, 3e4, 1, 50, 0, 50, 1e-4, 3e4, 1e-2, 2e3, 8, 3e4, 1e-3, 1, 1e-4, 3e4, 0, 50]
const firstRow = requestRows.map((_, request) =>
  requestRows.slice(0, request).reduce((sum, rows) => sum + rows, 0),
)
const words = ['', 'a', 'b', 'bc', 'abc', 'A', 'a b', 'zz top', 'b,c', 'x']

export interface Values {
  readonly type: Tensor.Type
  readonly dims: readonly number[]
  readonly data: Tensor['data']
}
type Request = Readonly<Record<string, Values>>

/** Opened with the optimisations that an engine has. */
export async function openGraph(model: Uint8Array): Promise<InferenceSession> {
  return InferenceSession.create(model, { logSeverityLevel: 4, intraOpNumThreads: 1, interOpNumThreads: 1 })
}

/** Runs requests alone and joined, and compares. The same for a seed each time. */
export async function truthOf(graph: GraphText, seed = 1): Promise<Truth> {
  const truth = await truthOfModel(graph, graph.model, seed)
  // ONNX Runtime runs what leads to no output as well, which may fail for some numbers of rows: that changes no answer.
  return truth.answer === 'differs' && isOfFailure(truth)
    ? truthOfModel(graph, graph.withoutDeadEnds(), seed)
    : truth
}

const joinedFails = 'joined it fails'
/** Whether joining makes a run fail, or one that fails alone succeed: another output, or a dead end, may be why. */
export const isOfFailure = ({ where }: Truth): boolean =>
  where.startsWith(joinedFails) || /^request \d+ fails alone/.test(where)

/** Whether a proof is wrong. */
export const refutes = ({ answer, servesNone }: Truth): boolean => answer === 'differs' && servesNone !== true

async function truthOfModel(graph: GraphText, model: Uint8Array, seed: number): Promise<Truth> {
  return withRuns(graph, model, seed, (runs) => judge(runs, graph.outputs))
}

/** The same of each output by itself, for each of its dimensions as if rows lay there. */
export async function truthsByAxis(
  graph: GraphText,
  seed = 1,
): Promise<{ output: GraphOutput; truth: Truth }[]> {
  let truths: { output: GraphOutput; truth: Truth }[] = []
  await withRuns(graph, graph.model, seed, async (runs) => {
    truths = []
    for (const { name } of graph.outputs) {
      const rank = Math.max(
        ...runs.alone.map((answer) => (typeof answer === 'string' ? 0 : answer[name]!.dims.length)),
      )
      for (let batchAxis = 0; batchAxis < rank; batchAxis++) {
        const truth = await judge(runs, [{ name, batchAxis }])
        // Another output may be why it fails.
        const isOther = graph.outputs.length > 1 && isOfFailure(truth)
        truths.push({ output: { name, batchAxis }, truth: isOther ? { ...truth, answer: 'unsure' } : truth })
      }
    }
    return { answer: 'same', where: '' }
  })
  return truths
}

/** Opens the model, runs requests alone and joined, and has them judged. */
async function withRuns(
  graph: GraphText,
  model: Uint8Array,
  seed: number,
  judged: (runs: Runs) => Promise<Truth>,
): Promise<Truth> {
  let session: InferenceSession
  try {
    session = await openGraph(model)
  } catch (error) {
    return { answer: 'cannot run', where: String(error) }
  }
  try {
    const truth = await judged(await runAll(session, graph, seed, 0))
    // What requests share is given twice, so that each branch is taken.
    return truth.answer === 'same' && graph.inputs.some((input) => batchAxisOf(input) < 0)
      ? await judged(await runAll(session, graph, seed, 1))
      : truth
  } finally {
    await session.release()
  }
}

/** The outputs of one run of so many rows; throws where it fails. */
export async function sampleRun(
  session: InferenceSession,
  { inputs, outputs }: GraphText,
  rows: number,
): Promise<Request> {
  const random = mulberry32(rows)
  const answer = await runOnce(
    session,
    Object.fromEntries(inputs.map((input) => [input.name, valuesOf(input, rows, 2, random)])),
    outputs,
  )
  if (typeof answer === 'string') throw new Error(answer)
  return answer
}

/** What came of all requests: outputs, or why it failed. */
interface Runs {
  readonly run: (request: Request) => Promise<Request | string>
  readonly requests: readonly Request[]
  readonly alone: readonly (Request | string)[]
  readonly joined: readonly (Request | string)[]
}

async function runAll(
  session: InferenceSession,
  { inputs, outputs }: GraphText,
  seed: number,
  round: 0 | 1,
): Promise<Runs> {
  const random = mulberry32(seed + round)
  const shared: Request = Object.fromEntries(
    inputs
      .filter((input) => batchAxisOf(input) < 0)
      .map((input) => [input.name, sharedValue(input, round, random)]),
  )
  const batched = inputs.filter((input) => batchAxisOf(input) >= 0)
  const requests = requestRows.map((rows, index) =>
    Object.fromEntries(
      batched.map((input, place) => [
        input.name,
        valuesOf(input, rows, firstRow[index]! + 5 * place, random),
      ]),
    ),
  )
  const run = (request: Request) => runOnce(session, { ...shared, ...request }, outputs)
  const alone: (Request | string)[] = []
  for (const request of requests) alone.push(await run(request))
  const answers: (Request | string)[] = []
  for (const members of joined)
    answers.push(
      await run(
        joinRequests(
          batched,
          members.map((member) => requests[member]!),
        ),
      ),
    )
  return { run, requests, alone, joined: answers }
}

async function judge(
  { run, requests, alone, joined: answers }: Runs,
  outputs: readonly GraphOutput[],
): Promise<Truth> {
  if (alone.every((answer) => typeof answer === 'string'))
    return { answer: 'cannot run', where: alone[0] as string }
  let unsure: string | null = null
  for (const [index, members] of joined.entries()) {
    const answer = answers[index]!
    const failing = members.find((member) => typeof alone[member] === 'string')
    if (failing !== undefined) {
      if (typeof answer === 'string') continue
      const servesNone = !alone.some(
        (own, request) =>
          typeof own !== 'string' &&
          outputs.every(({ name, batchAxis }) => own[name]!.dims[batchAxis] === requestRows[request]),
      )
      return {
        answer: 'differs',
        where: `request ${failing} fails alone, and not in ${members.join(' + ')}: ${alone[failing] as string}`,
        servesNone,
      }
    }
    if (typeof answer === 'string') return { answer: 'differs', where: `${joinedFails}: ${answer}` }
    const total = members.reduce((sum, other) => sum + requestRows[other]!, 0)
    let from = 0
    for (const member of members) {
      const rows = requestRows[member]!
      for (const output of outputs) {
        const own = (alone[member] as Request)[output.name]!
        const where = `request ${member} of ${members.join(' + ')}, output '${output.name}'`
        const difference = compareRows(
          own,
          answer[output.name]!,
          output.batchAxis,
          { from, rows, total },
          tolerance,
        )
        if (difference === null) continue
        // Dims depend on no rounding.
        if (
          !difference.isValue ||
          (difference.relative > mostOfRounding &&
            !(await isRounding(run, requests[member]!, own, output, rows, difference.relative)))
        )
          return { answer: 'differs', where: `${where}: ${difference.what}` }
        unsure = `${where}: ${difference.what}`
      }
      from += rows
    }
  }
  for (const [first, second] of beside) {
    const [one, other] = [answers[first]!, answers[second]!]
    if (typeof one === 'string' || typeof other === 'string') continue
    const rows = requestRows[joined[first]![0]!]!
    for (const { name, batchAxis } of outputs) {
      const own = sliceRows(one[name]!, batchAxis, 0, rows)
      const difference = compareRows(
        own,
        other[name]!,
        batchAxis,
        { from: 0, rows, total: other[name]!.dims[batchAxis]! },
        orderOfSums,
      )
      if (difference !== null)
        return {
          answer: 'differs',
          where: `request ${joined[first]![0]} beside ${joined[first]![1]} and beside ${joined[second]![1]}, output '${name}': ${difference.what}`,
        }
    }
  }
  return unsure === null ? { answer: 'same', where: '' } : { answer: 'unsure', where: unsure }
}

/** Whether a request's own answer moves about as far when its numbers are rounded otherwise: relative to them, and as beside a 1. */
async function isRounding(
  run: (request: Request) => Promise<Request | string>,
  request: Request,
  own: Values,
  { name, batchAxis }: GraphOutput,
  rows: number,
  difference: number,
): Promise<boolean> {
  const random = mulberry32(99)
  for (let round = 0; round < 4; round++) {
    const moved = await run(
      Object.fromEntries(
        Object.entries(request).map(([input, values]) => [input, roundedOtherwise(values, random)]),
      ),
    )
    if (typeof moved === 'string') return true
    if (
      compareRows(
        own,
        moved[name]!,
        batchAxis,
        { from: 0, rows, total: rows },
        Math.min(difference, 1) / 10,
      ) !== null
    )
      return true
  }
  return false
}

function roundedOtherwise(values: Values, random: Random): Values {
  if (!(values.data instanceof Float32Array)) return values
  return {
    ...values,
    data: values.data.map((value) => value * (1 + (random() - 0.5) * 2e-6) + (random() - 0.5) * 2e-7),
  }
}

async function runOnce(
  session: InferenceSession,
  request: Request,
  outputs: readonly GraphOutput[],
): Promise<Request | string> {
  const feeds = Object.fromEntries(session.inputNames.map((name) => [name, tensorOf(request[name]!)]))
  try {
    const results = await session.run(
      feeds,
      outputs.map(({ name }) => name),
      { logSeverityLevel: 4 },
    )
    return Object.fromEntries(
      outputs.map(({ name }) => [
        name,
        { type: results[name]!.type, dims: results[name]!.dims, data: results[name]!.data },
      ]),
    )
  } catch (error) {
    return String(error)
  }
}

function tensorOf({ type, dims, data }: Values): Tensor {
  return new Tensor(type as 'float32', data as Float32Array, dims)
}

const arrays = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
} as const // prettier-ignore

function sharedValue(input: GraphInput, round: 0 | 1, random: Random): Values {
  const values = valuesOf(input, 1, 0, random)
  return input.type === 'bool'
    ? { ...values, data: Uint8Array.from(values.data as Uint8Array, (_, index) => (index + round) % 2) }
    : values
}

/** Values of one request: floats have a scale for each row. */
function valuesOf(
  { type, dims: declared, range }: GraphInput,
  rows: number,
  first: number,
  random: Random,
): Values {
  const dims = declared.map((size) => (size === 'N' ? rows : size))
  const count = dims.reduce((product, size) => product * size, 1)
  const axis = batchAxisOf({ dims: declared })
  const inner = dims.slice(axis + 1).reduce((product, size) => product * size, 1)
  const between = (least: number, most: number) => least + random() * (most - least)
  const value = (index: number): number => {
    if (range !== null) return type.startsWith('float') ? between(...range) : Math.floor(between(...range))
    if (type === 'bool') return Number(random() < 0.5)
    if (!type.startsWith('float')) return Math.floor(type.startsWith('uint') ? between(0, 6) : between(-5, 6))
    const scale = axis < 0 ? 1 : scales[(first + (Math.floor(index / inner) % rows)) % scales.length]!
    return between(-1, 1) * scale
  }
  if (type === 'string')
    return {
      type,
      dims,
      data: Array.from({ length: count }, () => words[Math.floor(between(...(range ?? [0, words.length])))]!),
    }
  const numbers = Array.from({ length: count }, (_, index) => value(index))
  if (type === 'int64') return { type, dims, data: BigInt64Array.from(numbers, BigInt) }
  if (type === 'uint64') return { type, dims, data: BigUint64Array.from(numbers, BigInt) }
  if (type === 'float16')
    return { type, dims, data: Uint16Array.from(numbers, (value) => toSmallFloat(type, value)) }
  if (!(type in arrays)) throw new Error(`no values of ${type}`)
  return { type: type as 'float32', dims, data: arrays[type as 'float32'].from(numbers) }
}

function joinRequests(inputs: readonly GraphInput[], requests: readonly Request[]): Request {
  return Object.fromEntries(
    inputs.map((input) => [
      input.name,
      concatRows(
        requests.map((request) => request[input.name]!),
        batchAxisOf(input),
      ),
    ]),
  )
}

function concatRows(parts: readonly Values[], axis: number): Values {
  const [first] = parts
  const dims = first!.dims.map((size, index) =>
    index === axis ? parts.reduce((sum, part) => sum + part.dims[axis]!, 0) : size,
  )
  const outer = dims.slice(0, axis).reduce((product, size) => product * size, 1)
  const pieces: Values['data'][] = []
  for (let block = 0; block < outer; block++) {
    for (const { data } of parts)
      pieces.push(
        data.slice((block * data.length) / outer, ((block + 1) * data.length) / outer) as Values['data'],
      )
  }
  return { type: first!.type, dims, data: joinArrays(pieces) }
}

function joinArrays(pieces: readonly Values['data'][]): Values['data'] {
  const first = pieces[0]!
  if (Array.isArray(first)) return (pieces as string[][]).flat()
  const all = new (first.constructor as Float32ArrayConstructor)(
    pieces.reduce((sum, piece) => sum + piece.length, 0),
  )
  let at = 0
  for (const piece of pieces) {
    all.set(piece as Float32Array, at)
    at += piece.length
  }
  return all
}

function sliceRows({ type, dims, data }: Values, axis: number, from: number, rows: number): Values {
  const inner = dims.slice(axis + 1).reduce((product, size) => product * size, 1)
  const block = dims[axis]! * inner
  const pieces: Values['data'][] = []
  for (let start = 0; start < data.length; start += block)
    pieces.push(data.slice(start + from * inner, start + (from + rows) * inner) as Values['data'])
  return {
    type,
    dims: dims.map((size, index) => (index === axis ? rows : size)),
    data: pieces.length === 0 ? data : joinArrays(pieces),
  }
}

interface Difference {
  readonly what: string
  /** Of a value, and not of dims. */
  readonly isValue: boolean
  /** Of the largest value of the row; infinite where that says nothing. */
  readonly relative: number
}

/** What a joined answer has else than a request's own; null where nothing. */
function compareRows(
  own: Values,
  all: Values,
  axis: number,
  { from, rows, total }: { from: number; rows: number; total: number },
  limit: number,
): Difference | null {
  if (own.dims[axis] !== rows || all.dims[axis] !== total)
    return {
      what: `[${own.dims}] of ${rows} rows and [${all.dims}] of ${total}`,
      isValue: false,
      relative: Infinity,
    }
  const part = sliceRows(all, axis, from, rows)
  if (String(part.dims) !== String(own.dims))
    return { what: `[${own.dims}] alone and [${part.dims}] joined`, isValue: false, relative: Infinity }
  const inner = own.dims.slice(axis + 1).reduce((product, size) => product * size, 1)
  const [ownData, data] = [numbersOf(own), numbersOf(part)]
  const isFloat = own.type.startsWith('float')
  const largest = new Float64Array(rows)
  if (isFloat)
    for (let index = 0; index < ownData.length; index++)
      if (Number.isFinite(ownData[index]))
        largest[Math.floor(index / inner) % rows] = Math.max(
          largest[Math.floor(index / inner) % rows]!,
          Math.abs(ownData[index] as number),
        )
  for (let index = 0; index < ownData.length; index++) {
    const [a, b] = [ownData[index]!, data[index]!]
    if (Object.is(a, b) || a === b) continue
    const relative = isFloat
      ? Math.abs((a as number) - (b as number)) / largest[Math.floor(index / inner) % rows]!
      : Infinity
    if (limit === tolerance && isFloat && Math.abs((a as number) - (b as number)) <= smallest) continue
    if (!(relative <= limit))
      return {
        what: `${a} alone and ${b} joined, at ${index} of [${own.dims}]`,
        isValue: true,
        relative: Number.isNaN(relative) ? Infinity : relative,
      }
  }
  return null
}

function numbersOf({ type, data }: Values): ArrayLike<number | bigint | string> {
  return type === 'float16'
    ? Array.from(data as ArrayLike<number>, (bits) => fromSmallFloat(type, bits))
    : data
}
