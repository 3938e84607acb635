import type { ResolvedConfig } from '../../options/model-config.ts'
import { InferenceError } from '../../errors.ts'
import { libraryVersion } from '../../base/own-package.ts'
import { inputsOfSequence } from '../../options/sequence-config.ts'
import { batchAxisOf, notStackable, type ValueMetadata } from '../../tensor/metadata.ts'
import { namedAxes, possibleAxes, type BatchAxes } from '../../request/batch-axes.ts'
import { shapeTensors, type ShapedTensors } from '../../request/shaped-tensors.ts'
import { elementCount } from '../../tensor/tensor.ts'
import type { RowProof, RowQuestion } from '../../onnx/row-proof/prove-rows.ts'
import type { WorkerSession } from '../../run/worker-session.ts'
import { Joining, type KnownRows, type Served } from '../../schedule/joining.ts'

/** The part of a session that answers questions about its graph. */
export type AskedSession = Pick<WorkerSession, 'prove' | 'note' | 'setNote'>

/** Increment with each change of the proof rules: notes of proofs and checks are valid for one revision. */
export const rulesRevision = 16

/** Prefix of notes of proofs. Another version of the rules proves everything again. */
const noteOf = (questions: readonly RowQuestion[]) => `${proofNotes}${JSON.stringify(questions)}`
const proofNotes = `proof ${libraryVersion}.${rulesRevision} `

/** With up to this many optional inputs all combinations are proved in advance; with more, those of each request. */
const mostOptional = 3

/** Whether the graph of a model must be read when its session opens. */
export function readsGraph(config: ResolvedConfig, session: Pick<WorkerSession, 'isKnown'>): boolean {
  return asksGraph(config) && !session.isKnown(proofNotes)
}

/** False if requests are not batched anyway, or the result would not matter. */
export function asksGraph({ joinRequests, maxBatchSize, checkRows, function: fn }: ResolvedConfig): boolean {
  return fn === null && joinRequests && (maxBatchSize === undefined ? true : maxBatchSize > 1 && checkRows)
}

/**
 * How the requests of a model are batched, by its configuration and graph. If no option says which dimensions count
 * rows, those are used for which the graph proves it: first dimensions are tried before dimensions that share a name.
 *
 * @param opened the inputs and outputs of its session.
 * @param tolerance allowed difference of floats.
 * @throws InferenceError `ERR_MODEL_CONFIG` when an option does not fit the model.
 */
export async function joiningAtLoad(
  name: string,
  config: ResolvedConfig,
  opened: Served,
  tolerance: number,
  session: AskedSession,
): Promise<Joining> {
  const joining = (found: Omit<KnownRows, 'tolerance'> = {}) =>
    new Joining(name, config, opened, { tolerance, ...found })
  if (!asksGraph(config)) return joining()
  const shaped = (axes: BatchAxes | null = null, instead: Partial<ResolvedConfig> = {}) =>
    shapesOrNull(() => shapeTensors(name, { ...config, maxBatchSize: undefined, ...instead }, opened, axes))
  /** The model with its rows along these dimensions; `null` if it cannot have them there. */
  const readingOf = (axes: BatchAxes) => {
    const reading = shaped(axes)
    return reading !== null && notStackable(reading.batched) === null ? { axes, ...reading } : null
  }
  const usual = shaped()
  // Configured `dims` describe a row, and may not fit a model with another batch axis until that axis is known.
  const [inputs, outputs] = [config.inputs?.map(withoutDims), config.outputs?.map(withoutDims)]
  const found = usual ?? shaped(null, { inputs, outputs })
  if (found === null) return joining() // it reports what is wrong
  const entries = proofOfEntries(found)
  if (entries !== null) return joining({ proof: entries })
  if (usual !== null && notStackable(usual.batched) === null) {
    const proof = await proofForAll(usual, config.optionalInputs, session)
    const isOpen =
      proof.rows === 'dependent' || (proof.rows === 'unknown' && config.maxBatchSize === undefined)
    for (const axes of isOpen && config.padding.length === 0
      ? namedAxes(config, usual.served, usual.needed)
      : []) {
      const reading = readingOf(axes)
      const own = reading && (await proofForAll(reading, config.optionalInputs, session))
      if (own?.rows === 'independent') return joining({ proof: withAxes(own, reading!), axes })
    }
    return joining({ proof })
  }
  const possible = config.padding.length > 0 ? [] : possibleAxes(found.served, found.needed)
  const readings = possible.flatMap((axes) => {
    const reading = readingOf(axes)
    return reading !== null && suitsSequence(config, reading.served.inputs) ? [reading] : []
  })
  if (readings.length === 0) return joining()
  const unproved = notStackable(found.batched)!
  const questions = readings.map((reading) => questionOf(reading))
  const proofs = await ask(session, questions)
  if (proofs.at(-1)!.rows === 'independent') {
    const reading = readings[proofs.length - 1]!
    const { axes } = reading
    const own = await proofForAll(reading, config.optionalInputs, session)
    return own.rows === 'independent'
      ? joining({ proof: withAxes(own, reading), axes })
      : joining({ proof: { ...own, rows: 'unknown' }, axes, unproved })
  }
  // Shared values may decide: the likeliest reading is proved again with the values of each request.
  const open = proofs.findIndex(
    ({ rows, node }, index) =>
      rows === 'unknown' && node !== null && readings[index]!.served.inputs.some(isKnownLater),
  )
  if (open === -1) return joining()
  return joining({ proof: proofs[open]!, axes: readings[open]!.axes, unproved })
}

const withoutDims = <T extends object>(tensor: T): T => ({ ...tensor, dims: undefined, reshape: undefined })

/** `null` if `dims` do not fit. */
function shapesOrNull(shape: () => ShapedTensors): ShapedTensors | null {
  try {
    return shape()
  } catch (error) {
    if (error instanceof InferenceError) return null
    throw error
  }
}

/** A proof that includes the batch axes, where they are not the first dimension. */
function withAxes(proof: RowProof, { batched: { inputs, outputs } }: ShapedTensors): RowProof {
  const elsewhere = [...inputs, ...outputs]
    .filter((value) => batchAxisOf(value) > 0)
    .map((value) => `dimension ${batchAxisOf(value)} of '${value.name}'`)
  return elsewhere.length === 0
    ? proof
    : { ...proof, reason: `${proof.reason}; rows are along ${elsewhere.join(' and ')}` }
}

/** Whether all rows share it, and it is small enough to give its values to the proof. */
function isKnownLater(input: ValueMetadata): boolean {
  return batchAxisOf(input) === -1 && elementCount(input.shape as number[]) <= mostElements
}

/** Whether each input that a sequence fills has rows, and exactly one in its initial state. */
function suitsSequence({ sequence }: ResolvedConfig, inputs: readonly ValueMetadata[]): boolean {
  const filled = new Set(inputsOfSequence(sequence))
  return inputs
    .filter(({ name }) => filled.has(name))
    .every((input) => {
      const axis = batchAxisOf(input)
      const initial = sequence?.state.find((state) => state.input === input.name)?.initial
      const dims =
        typeof initial === 'object' && initial !== null && 'dims' in initial
          ? (initial.dims as readonly number[])
          : null
      return axis !== -1 && (dims === null || dims[axis] === 1)
    })
}

const unknown = (reason: string): RowProof => ({ rows: 'unknown', node: null, reason })

/** A result without a proof, for outputs that do not have one entry per row; `null` if there are none. */
function proofOfEntries({ served, needed }: Pick<ShapedTensors, 'served' | 'needed'>): RowProof | null {
  const index = needed.find((each) => served.outputs[each]!.rows !== undefined)
  if (index === undefined) return null
  return unknown(
    `output '${served.outputs[index]!.name}' says whose its entries are (rows), which the graph is not asked of`,
  )
}

/** Proves all combinations of optional inputs. The model's proof holds only if each of them holds. */
async function proofForAll(
  shaped: ShapedTensors,
  optionalInputs: readonly string[],
  session: AskedSession,
): Promise<RowProof> {
  const optional = optionalInputs.filter((name) => shaped.served.inputs.some((input) => input.name === name))
  if (optional.length > mostOptional)
    return unknown(`it has ${optional.length} optional inputs, and the proof tries ${mostOptional} at most`)
  let proof: RowProof | null = null
  for (let given = 0; given < 2 ** optional.length; given++) {
    const left = optional.filter((_, at) => (given & (1 << at)) !== 0)
    const question = questionOf(shaped, (index) =>
      left.includes(shaped.served.inputs[index]!.name) ? null : shaped.served.inputs[index]!.shape,
    )
    if (!question.inputs.some(({ batchAxis }) => batchAxis !== -1)) continue // no request of this kind has rows
    proof = (await ask(session, [question]))[0]!
    if (proof.rows !== 'independent') return proof
  }
  return proof!
}

/**
 * The question to the graph of a model.
 *
 * @param shapeOf the shape of an input, by its index; `null` for one that is left out. Default: the model's.
 * @param elementsOf the values of an input that all rows share; `null` if unknown.
 */
export function questionOf(
  { served, needed }: Pick<ShapedTensors, 'served' | 'needed'>,
  shapeOf = (index: number): readonly (number | string)[] | null => served.inputs[index]!.shape,
  elementsOf = (_index: number): readonly number[] | null => null,
): RowQuestion {
  return {
    inputs: served.inputs.flatMap((input, index) => {
      const shape = shapeOf(index)
      const batchAxis = batchAxisOf(input)
      const elements = batchAxis === -1 && shape !== null ? elementsOf(index) : null
      return shape === null
        ? []
        : [{ name: input.name, shape, batchAxis, ...(elements !== null && { elements }) }]
    }),
    outputs: needed.map((index) => ({
      name: served.outputs[index]!.name,
      batchAxis: batchAxisOf(served.outputs[index]!),
    })),
  }
}

/** Most elements of a shared input whose values the proof uses. */
export const mostElements = 64

/** The elements of a small tensor, in the form that proofs use; `null` if the proof cannot use them. */
export function knownElements(type: string, values: ArrayLike<unknown>): number[] | null {
  if (
    values.length > mostElements ||
    !(/^u?int(8|16|32|64)$/.test(type) || ['float32', 'float64', 'bool'].includes(type))
  )
    return null
  const elements = Array.from(values, Number)
  const areSafe = elements.every((element) =>
    /int/.test(type) ? Number.isSafeInteger(element) : Number.isFinite(element) && !Object.is(element, -0),
  )
  return areSafe ? elements : null
}

/** The answers of the graph, or of notes, to questions of which one needs to be proved. */
export async function ask(
  session: AskedSession,
  questions: readonly RowQuestion[],
): Promise<readonly RowProof[]> {
  const key = noteOf(questions)
  const noted = session.note(key)
  if (noted !== '') return JSON.parse(noted) as RowProof[]
  const proofs = await session.prove(questions)
  // An unknown answer without a node may change the next time: a file could not be read.
  if (proofs.every(({ rows, node }) => rows !== 'unknown' || node !== null))
    session.setNote(key, JSON.stringify(proofs))
  return proofs
}
