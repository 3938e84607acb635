import { invalidArgument, invalidConfig } from '../errors.ts'
import { isElementType, isRawType, type ElementType } from './tensor.ts'
import { valueTypeOf, type StructuredType } from './values.ts'

/** One input or output as ONNX Runtime reports it. */
export interface RawValueMetadata {
  /** As feeds and answers have it. */
  readonly name: string
  /** ONNX Runtime's type name, or a description of what is no tensor. */
  readonly type: string
  /** A number for a fixed dimension, a name (possibly '') for a symbolic one. */
  readonly shape: readonly (number | string)[]
  /** See {@link ValueMetadata.ragged}. */
  readonly ragged?: boolean
}

/**
 * How the entries of an output belong to the rows of a batch, where there is not one for each row: the boxes of a detector, say. Entries are
 * those of the first dimension, and keep their order.
 *
 * | | whose row an entry is |
 * |---|---|
 * | `{ index: 0 }` | the number in column 0 of the entry says it: `selected_indices` of ONNX's `NonMaxSuppression`. A caller reads there the number among its own rows |
 * | `{ index: 0, of: 'selected_indices' }` | the same column of another output, which has as many entries; that one is divided by it as well |
 * | `{ counts: 'n' }` | output `n`, `[rows]` or `[rows, 1]`, says how many entries each row has; those of the first row come first |
 */
export type OutputRows =
  | { readonly index: number; readonly of?: string; readonly counts?: undefined }
  | { readonly counts: string; readonly index?: undefined; readonly of?: undefined }

/** One input or output of a loaded model. */
export interface ValueMetadata {
  /** As feeds and answers have it. */
  readonly name: string
  /** The type of the elements of a tensor; else what it is made up of, as `'seq(map(int64, float32))'`. */
  readonly type: ElementType | StructuredType
  /** A number for a fixed dimension, a name (possibly '') for a symbolic one; the batch dimension included. Empty for what is no tensor. */
  readonly shape: readonly (number | string)[]
  /** What the model's file says of it (`doc_string`); left out where that is nothing. */
  readonly description?: string
  /** Whether rows of one batch may have different lengths in dimensions without a name: Triton's ragged batching. Of functions only. */
  readonly ragged?: boolean
  /** Whether requests may have further dimensions of 1 behind those of the shape, which are left out. Of functions that are built in only. */
  readonly trailingOnes?: boolean
  /** Which dimension counts the rows of a batch, where that is not the first; `null` for an input that all rows of a batch share. */
  readonly batchAxis?: number | null
  /** How the entries of an output belong to rows, where there is not one for each; see `OutputConfig.rows`. */
  readonly rows?: OutputRows
}

/** Which dimension of a value counts the rows of a batch; -1 for one that all rows share. */
export function batchAxisOf(value: Pick<ValueMetadata, 'batchAxis'>): number {
  return Object.hasOwn(value, 'batchAxis') ? (value.batchAxis ?? -1) : 0
}

/** One that is a tensor. */
export interface TensorMetadata extends ValueMetadata {
  readonly type: ElementType
}

/** A shape for a message; what no name is known of is a question mark. */
export function shownShape(shape: TensorMetadata['shape']): string {
  return `[${shape.map((dim) => (dim === '' ? '?' : dim)).join(', ')}]`
}

/** Whether one tensor may have both shapes. ONNX Runtime gives [] for scalars as well as for any rank. */
export function shapesFit(one: ValueMetadata['shape'], other: ValueMetadata['shape']): boolean {
  if (one.length === 0 || other.length === 0) return true
  return (
    one.length === other.length &&
    one.every(
      (dim, axis) => typeof dim === 'string' || typeof other[axis] === 'string' || dim === other[axis],
    )
  )
}

/** What is known of whether a model's rows depend on each other; see {@link ModelMetadata.joining}. */
export interface RowJoining {
  /**
   * | | requests share runs |
   * |---|---|
   * | `independent` | yes: no row changes another |
   * | `declared` | yes, because `maxBatchSize` was given, whatever was found |
   * | `dependent` | no: rows meet in the graph (at `node`), runs show that they change each other, or inputs or outputs cannot be divided among rows |
   * | `unknown` | no: not to be joined, or not known yet (the first real requests may decide) |
   */
  readonly rows: 'independent' | 'declared' | 'dependent' | 'unknown'
  /**
   * | | how that is known |
   * |---|---|
   * | `proved` | from the graph and its shapes; nothing was run |
   * | `checked` | by running rows alone and beside others |
   * | `declared` | the configuration says so |
   * | `unknown` | it is not |
   */
  readonly how: 'proved' | 'checked' | 'declared' | 'unknown'
  /** The node of the graph at which rows meet, or that could not be followed; left out where there is none. */
  readonly node?: string
  /**
   * By how much a row beside others differed from the same row alone, relative to the largest value of the row: the
   * largest of all trials. `Infinity` where it has no measure (NaN, strings, another shape), `null` where nothing was run.
   */
  readonly largestDifference: number | null
  /** Why, in words. */
  readonly reason: string
}

/** An execution provider that a model asks for, and what became of that. */
export interface ModelProvider {
  /** As `executionProviders`, or the kind of an instance group, has it. */
  readonly name: string
  /** Whether sessions of the model have it. ONNX Runtime gives it the nodes that it can run, and the others to those after it. */
  readonly used: boolean
  /** Why not; `null` for one that is used. */
  readonly reason: string | null
}

/** What a model says of itself, as its file has it; texts that it leaves out are empty. */
export interface ModelProperties {
  /** The program that has written it. */
  readonly producer: { readonly name: string; readonly version: string }
  /** Whose model it is, such as `com.example`. */
  readonly domain: string
  /** The number that its makers count its versions by (`model_version`); 0 where they do not. */
  readonly version: number
  readonly description: string
  readonly graph: { readonly name: string; readonly description: string }
  /** Its `metadata_props`: whatever its makers have added by name, the names of classes for one. A text of more than a mebibyte, or beyond 4 in all, is empty. */
  readonly custom: Readonly<Record<string, string>>
}

/** What a loaded model takes and gives. */
export interface ModelMetadata {
  /** The name it was loaded under. */
  readonly name: string
  /** Of its file; '' for a model that was given as bytes. */
  readonly path: string
  /** What it says of itself; `null` for functions and pipelines, and in ONNX Runtime's own format (`.ort`). */
  readonly properties: ModelProperties | null
  /** In the order that the model has them in. */
  readonly inputs: readonly ValueMetadata[]
  /** The outputs that can be served. */
  readonly outputs: readonly ValueMetadata[]
  /** Outputs the model has but the executor in use cannot carry, with their types. */
  readonly unservableOutputs: readonly { readonly name: string; readonly type: string }[]
  /** The execution providers that it asks for, in order of preference, and which of them its sessions have. */
  readonly executionProviders: readonly ModelProvider[]
  /** Most rows in one run; 0 for a model whose requests are not joined. See `defaultMaxBatchSize` for short runs. */
  readonly maxBatchSize: number
  /** Whether rows of different requests share runs, and why. The object is another one when that changes. */
  readonly joining: RowJoining
}

/** The batch size of a model with independent rows whose configuration names none. */
export const defaultMaxBatchSize = 32

/** Of such a model, most rows of a run that takes a fraction of a millisecond: each run costs what many of its rows do. */
export const mostRowsOfShortRuns = 256

/**
 * Splits what a session has into what can be served and what cannot; the carrier decides.
 *
 * @throws InferenceError `ERR_MODEL_LOAD` when an input, or every output, is of a type that is not carried, or two inputs or
 * outputs have one name.
 */
export function servable(
  model: string,
  found: { readonly inputs: readonly RawValueMetadata[]; readonly outputs: readonly RawValueMetadata[] },
  carrier: Carrier,
): Pick<ModelMetadata, 'inputs' | 'outputs' | 'unservableOutputs'> {
  checkNames(model, 'input', found.inputs)
  checkNames(model, 'output', found.outputs)
  const [inputs, outputs] = [found.inputs, found.outputs].map((values) =>
    values.map((value) => ({ ...value, name: propertyName(value.name) })),
  ) as [RawValueMetadata[], RawValueMetadata[]]
  for (const { name, type } of inputs) {
    if (carrier.carries(type)) continue
    throw invalidArgument(`input '${name}'`, `a ${carrier.what}`, type, {
      code: 'ERR_MODEL_LOAD',
      model,
      hint: `${carrier.otherwise([type])}Re-export the model with this input as a tensor of a supported type, or cast it inside the graph`,
    })
  }
  const isServable = (value: RawValueMetadata): value is ValueMetadata => carrier.carries(value.type)
  const unservableOutputs = outputs
    .filter((output) => !isServable(output))
    .map(({ name, type }) => ({ name, type }))
  const served = outputs.filter(isServable)
  if (served.length === 0) {
    const types = unservableOutputs.map(({ name, type }) => `'${name}' (${type})`)
    throw invalidArgument('outputs', `at least one ${carrier.what}`, types, {
      code: 'ERR_MODEL_LOAD',
      model,
      hint: `${carrier.otherwise(unservableOutputs.map(({ type }) => type))}Re-export the model with a tensor output, for a scikit-learn classifier without ZipMap`,
    })
  }
  return { inputs: inputs as readonly ValueMetadata[], outputs: served, unservableOutputs }
}

/** The name as the string that V8 keeps for names of properties. It finds these without comparing characters. */
function propertyName(name: string): string {
  return Object.keys({ [name]: null })[0]!
}

/** Values are given and answered by name: of two with one name, one would be lost. */
function checkNames(model: string, kind: 'input' | 'output', values: readonly RawValueMetadata[]): void {
  const names = new Set<string>()
  const twice = values.find(({ name }) => names.size === names.add(name).size)?.name
  if (twice === undefined) return
  throw invalidArgument(
    `${kind} '${twice}'`,
    'a name of its own',
    `${values.filter(({ name }) => name === twice).length} ${kind}s of that name`,
    {
      code: 'ERR_MODEL_LOAD',
      model,
      hint: `Re-export the model, or give each ${kind} an Identity node with another name`,
    },
  )
}

/**
 * Why the shapes alone rule out that requests share a run; `null` where they don't. Each input and output needs a
 * symbolic first dimension, whatever its name: whether that counts independent rows is to be found out by running.
 */
export function notStackable({ inputs, outputs }: Pick<ModelMetadata, 'inputs' | 'outputs'>): string | null {
  if (inputs.length === 0) return 'the model has no inputs'
  const structured = withoutRows({ inputs, outputs })
  if (structured !== undefined) return `'${structured.name}' is ${structured.type}, which has no rows`
  const input = inputs.find(hasFixedRows)
  if (inputs.every((value) => batchAxisOf(value) === -1))
    return 'all inputs are shared by the rows of a batch'
  if (input !== undefined)
    return `input '${input.name}' of shape ${shownShape(input.shape)} has no variable first dimension`
  const output = outputs.find(hasFixedRows)
  return output === undefined
    ? null
    : `output '${output.name}' of shape ${shownShape(output.shape)} has no variable first dimension`
}

/** Whether a tensor that is to have rows has no variable dimension for them. */
function hasFixedRows(value: ValueMetadata): boolean {
  const axis = batchAxisOf(value)
  return (
    isElementType(value.type) &&
    value.rows === undefined &&
    axis !== -1 &&
    typeof value.shape[axis] !== 'string'
  )
}

/** The first that can have no rows: an input that is no tensor, an output that is no sequence either (a classifier's has a map per row). */
function withoutRows({
  inputs,
  outputs,
}: Pick<ModelMetadata, 'inputs' | 'outputs'>): ValueMetadata | undefined {
  return (
    inputs.find(({ type }) => !isElementType(type)) ??
    outputs.find(({ type }) => !isElementType(type) && !type.startsWith('seq('))
  )
}

/**
 * Checks a configured batch size against the model.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` when rows cannot be stacked on a fixed or absent first dimension.
 */
export function checkBatchDimension(
  model: string,
  maxBatchSize: number,
  metadata: Pick<ModelMetadata, 'inputs' | 'outputs'>,
): void {
  if (maxBatchSize === 0) return
  if (metadata.inputs.length === 0) {
    throw invalidConfig(model, 'maxBatchSize', '0 for a model without inputs', maxBatchSize)
  }
  const structured = withoutRows(metadata)
  const fixed = [...metadata.inputs, ...metadata.outputs].find(
    (value) => hasFixedRows(value) && !(maxBatchSize === 1 && value.shape[batchAxisOf(value)] === 1),
  )
  if (structured !== undefined || fixed !== undefined) {
    const why =
      structured === undefined
        ? `'${fixed!.name}' has the fixed shape ${shownShape(fixed!.shape)}`
        : `'${structured.name}' is ${structured.type}`
    throw invalidConfig(
      model,
      'maxBatchSize',
      `0, since ${why}`,
      maxBatchSize,
      'Omit maxBatchSize: every request then runs alone, unchanged',
    )
  }
}

/** A way to carry inputs and outputs to ONNX Runtime and back. It decides what of a model can be served. */
export interface Carrier {
  /** What it carries, for a message. */
  readonly what: string
  /** Whether it carries values of a type, by ONNX Runtime's name of it. */
  carries(type: string): boolean
  /** Whether strings keep NUL characters. */
  readonly carriesNul: boolean
  /**
   * From how many bytes an output of a single request is best taken as it is given, and moved to the caller, rather than
   * written to the slot and copied from there.
   */
  readonly movesFromBytes: number
  /** What to do about types that it does not carry, for a message: what another one carries; else nothing. */
  otherwise(types: readonly string[]): string
}

/** ONNX Runtime's C API, by the addon. */
export const libraryCarrier: Carrier = {
  what: 'value that can be carried to ONNX Runtime',
  carries: (type) => valueTypeOf(type) !== null,
  carriesNul: true,
  movesFromBytes: Infinity, // it writes to the slot itself
  otherwise: () => '',
}

/** onnxruntime-node: its binding knows the element types of JavaScript's arrays, and aborts the process over some others. */
export const bindingCarrier: Carrier = {
  what: 'tensor of a type that onnxruntime-node can carry',
  carries: (type) => isElementType(type) && !isRawType(type),
  carriesNul: false,
  // It has every output in memory of its own: measured, moving halves what 588 KB cost over a plain run. One of several
  // requests is copied to the slot: moved as well, it took no less (4 rows of 588 KB).
  movesFromBytes: 65_536,
  otherwise: (types) =>
    types.every(libraryCarrier.carries) ? "Use executor: 'native', which carries it. Else: " : '',
}

/** JavaScript on a thread of its own: elements that it has arrays for. */
export const functionCarrier: Carrier = {
  what: 'tensor of a type that JavaScript has an array for',
  carries: (type) => isElementType(type) && !isRawType(type),
  carriesNul: true,
  movesFromBytes: 65_536, // as with the binding: what was given is copied once either way, and moved or copied again
  otherwise: () => '',
}
