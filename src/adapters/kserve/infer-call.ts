import { Buffer, isUtf8 } from 'node:buffer'
import type { Pieces } from '../../base/slices.ts'
import { listNames, invalidArgument } from '../../errors.ts'
import type { InferOptions } from '../../options/infer-options.ts'
import type { Feeds, FeedValue } from '../../options/model-signature.ts'
import { batchAxisOf, type ModelMetadata, shownShape, type ValueMetadata } from '../../tensor/metadata.ts'
import { byteLengthOf, elementCount, type ElementType, isElementType, putValue } from '../../tensor/tensor.ts'
import { HttpFailure } from './exchange.ts'
import { Fields, fieldsPieces, isText } from './json-fields.ts'
import type { ResolvedKserveOptions } from './kserve.ts'
import { binaryElements, datatypes, jsonElements, onlyElement, typeOfDatatype } from './tensor-elements.ts'

/** An inference request of a client. */
export interface InferCall {
  readonly header: InferHeader
  readonly feeds: Feeds
}

/** What the JSON of a request says, but for the elements of tensors. */
export interface InferHeader {
  readonly id: string | undefined
  readonly options: InferOptions
  readonly outputs: readonly RequestedOutput[]
  /** Whether these are all outputs of the model. */
  readonly wantsAll: boolean
  /** The last answer with binary tensors only; `null` for none. */
  lastAnswer: BinaryAnswer | null
}

/** An answer with binary tensors only. */
interface BinaryAnswer {
  /** Of each output. */
  readonly dims: readonly (readonly number[])[]
  /** All that is before the tensors. */
  readonly json: string
  readonly httpHeaders: Readonly<Record<string, string>>
}

/**
 * Reads a body that begins with JSON, in pieces.
 *
 * @param jsonBytes length of the JSON; `undefined` if the whole body is JSON.
 * @throws InferenceError `ERR_INVALID_ARG`; HttpFailure 501 for shared memory.
 */
export function* readInferCall(
  body: Uint8Array,
  jsonBytes: number | undefined,
  metadata: ModelMetadata,
  options: ResolvedKserveOptions,
): Pieces<InferCall> {
  const json = body.subarray(0, jsonBytes ?? body.byteLength)
  const { maxJsonBytes } = options
  if (json.byteLength < (jsonBytes ?? 0))
    throw invalidArgument(
      'Inference-Header-Content-Length',
      `${body.byteLength} at most, as the body has so many bytes`,
      jsonBytes,
    )
  if (json.byteLength > maxJsonBytes)
    throw invalidArgument(
      'The JSON of the request',
      `${maxJsonBytes} bytes at most (maxJsonBytes)`,
      json.byteLength,
      { hint: 'Send tensors as binary data (binary_data_size)' },
    )
  const isKept = jsonBytes !== undefined && jsonBytes <= mostKeptBytes
  const header = yield* (isKept ? keptOrRead : readHeader)(json, metadata, options)
  const binary = body.subarray(json.byteLength)
  return { header, feeds: yield* readFeeds(header.inputs, binary, metadata, options) }
}

interface GivenHeader extends InferHeader {
  readonly inputs: readonly GivenInput[]
  /** What it was checked against. */
  readonly limits: ResolvedKserveOptions
}

/** An input as the JSON describes it. */
interface GivenInput {
  readonly name: string
  readonly type: ElementType
  readonly shape: readonly number[]
  /** Its elements as JSON; `undefined` for a binary tensor. */
  readonly data: unknown
  /** Bytes of a binary tensor; `undefined` for JSON. */
  readonly size: number | undefined
}

/** Headers of a model's last requests with binary tensors only, by their JSON: most requests of a client have the same. */
const keptHeaders = new WeakMap<ModelMetadata, Map<string, GivenHeader>>()
const mostKept = 32
/** Longer ones are not kept, in bytes. */
const mostKeptBytes = 1024

function* keptOrRead(
  json: Uint8Array,
  metadata: ModelMetadata,
  limits: ResolvedKserveOptions,
): Pieces<GivenHeader> {
  let kept = keptHeaders.get(metadata)
  if (kept === undefined) keptHeaders.set(metadata, (kept = new Map<string, GivenHeader>()))
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString('latin1')
  const known = kept.get(text)
  if (known?.limits === limits) return known
  const header = yield* readHeader(json, metadata, limits)
  // Ids differ from request to request.
  if (header.id === undefined && header.inputs.every(({ data }) => data === undefined)) {
    if (kept.size === mostKept) kept.delete(kept.keys().next().value!)
    kept.set(text, header)
  }
  return header
}

function* readHeader(
  json: Uint8Array,
  metadata: ModelMetadata,
  limits: ResolvedKserveOptions,
): Pieces<GivenHeader> {
  const request = yield* fieldsPieces(json, limits)
  const { parameters } = request
  const id = request.text('id', limits.maxNameLength)
  const options = readParameters(parameters, limits.maxNameLength)
  const inputs = readInputs(request, limits)
  const outputs = readOutputs(request, parameters, metadata, limits)
  return {
    id,
    options: { ...options, requestId: id === '' ? undefined : id },
    inputs,
    outputs,
    wantsAll: areAll(outputs, metadata),
    lastAnswer: null,
    limits,
  }
}

/** @throws InferenceError `ERR_INVALID_ARG`; HttpFailure 501 for shared memory. */
function readInputs(
  request: Fields,
  { maxTensors, maxNameLength }: ResolvedKserveOptions,
): readonly GivenInput[] {
  const inputs = request.given('inputs', request.list('inputs', maxTensors), 'an array of tensors')
  const names = new Set<string>()
  return inputs.map((each, index) => {
    const input = new Fields(each, `inputs[${index}]`)
    const name = input.given('name', input.text('name', maxNameLength), 'the name of an input')
    if (names.has(name)) throw input.wrong('name', 'each name once', name)
    names.add(name)
    const { type, shape } = readType(input)
    const { parameters } = input
    refuseSharedMemory(parameters, `inputs[${index}]`)
    const size = parameters.count('binary_data_size') // none for JSON data
    const data = input.get('data')
    if ((size === undefined) === (data === undefined))
      throw invalidArgument(
        `input '${name}'`,
        "either 'data' or 'binary_data_size' in 'parameters'",
        data === undefined ? 'neither' : 'both',
      )
    return { name, type, shape, data, size }
  })
}

/**
 * The inputs of a request as feeds, in pieces.
 *
 * @param binary the bytes after the JSON: the binary tensors, in order.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
function* readFeeds(
  inputs: readonly GivenInput[],
  binary: Uint8Array,
  metadata: ModelMetadata,
  options: ResolvedKserveOptions,
): Pieces<Record<string, FeedValue>> {
  const feeds: Record<string, FeedValue> = {}
  let at = 0
  for (const { name, type, shape, data, size } of inputs) {
    const what = `input '${name}'`
    if (size === undefined) {
      putValue(feeds, name, tensorOf(type, shape, yield* jsonElements(what, type, shape, data)))
      continue
    }
    if (size > binary.byteLength - at)
      throw invalidArgument(
        `${what}.parameters.binary_data_size`,
        `${binary.byteLength - at} at most, as so many bytes are left of the body`,
        size,
      )
    const bytes = binary.subarray(at, (at += size))
    const isImage =
      type === 'string' && metadata.inputs.some((known) => known.name === name && known.type !== 'string')
    if (type === 'string' && !isImage && size > options.maxJsonBytes)
      throw invalidArgument(
        `${what}.parameters.binary_data_size`,
        `${options.maxJsonBytes} at most for text (maxJsonBytes)`,
        size,
      )
    putValue(
      feeds,
      name,
      isImage
        ? encodedImage(what, shape, bytes)
        : tensorOf(type, shape, yield* binaryElements(what, type, shape, bytes, options)),
    )
  }
  if (at < binary.byteLength)
    throw invalidArgument(
      'The body',
      `${at} bytes after its JSON, as the inputs have in all`,
      binary.byteLength,
    )
  return feeds
}

/** The engine reads it as any tensor, whichever copy of onnxruntime-common made it. */
function tensorOf(type: ElementType, dims: readonly number[], data: unknown): FeedValue {
  return { type, dims, data } as FeedValue
}

/** Most dimensions of a tensor. */
const mostDims = 32

function readType(input: Fields): { readonly type: ElementType; readonly shape: readonly number[] } {
  const datatype = input.text('datatype', mostDims)
  const type = datatype === undefined ? undefined : typeOfDatatype(datatype)
  if (type === undefined) throw input.wrong('datatype', `one of ${datatypes.join(', ')}`, datatype)
  const shape = input.given('shape', input.list('shape', mostDims), 'an array of dimensions')
  if (!shape.every((dim) => Number.isSafeInteger(dim) && (dim as number) >= 0))
    throw input.wrong('shape', 'whole numbers, 0 or more', shape)
  return { type, shape: Object.freeze(shape) as readonly number[] } // many requests may have the same one
}

/** @throws HttpFailure 501 for a tensor in shared memory. */
function refuseSharedMemory(parameters: Fields, where: string): void {
  if (parameters.get('shared_memory_region') === undefined) return
  throw new HttpFailure(
    501,
    `${where}.parameters.shared_memory_region: shared memory is not supported. Send and ask for the tensor as binary data.`,
  )
}

/**
 * A single BYTES element for a numeric input is an encoded image. The engine decodes it if the model's
 * configuration says how.
 */
function encodedImage(what: string, shape: readonly number[], bytes: Uint8Array): Uint8Array {
  if (elementCount(shape) !== 1)
    throw invalidArgument(what, 'one encoded image, of shape [1]', `shape [${shape.join(', ')}]`)
  const image = onlyElement(what, bytes)
  if (image === undefined) throw invalidArgument(what, 'one encoded image', undefined)
  return image
}

/**
 * The options that Triton's request parameters stand for: `priority`, `timeout` (in microseconds),
 * `sequence_id`, `sequence_start`, `sequence_end`. Other parameters have no effect; Triton hands them to
 * backends.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
function readParameters(parameters: Fields, maxNameLength: number): InferOptions {
  for (const name of parameters.names) {
    if (name.startsWith('triton_'))
      throw parameters.wrong(
        name.slice(0, maxNameLength),
        "a name that does not begin with 'triton_', as those that Triton has for itself do",
        name,
      )
    const value = parameters.get(name)
    if (typeof value === 'object')
      throw parameters.wrong(name.slice(0, maxNameLength), 'a string, a number, true or false', value)
  }
  const timeoutUs = parameters.count('timeout')
  return {
    timeoutMs: timeoutUs ? timeoutUs / 1000 : undefined,
    priority: parameters.count('priority'),
    sequenceId: sequenceId(parameters.get('sequence_id'), maxNameLength),
    sequenceStart: parameters.flag('sequence_start') || undefined,
    sequenceEnd: parameters.flag('sequence_end') || undefined,
  }
}

/** `undefined` for none; 0 and '' mean none as well. */
function sequenceId(value: unknown, maxNameLength: number): string | number | undefined {
  if (value === undefined || value === 0 || value === '') return undefined
  if (isText(value, maxNameLength)) return value
  // JSON.parse() could round two larger ids to the same number.
  if (Number.isSafeInteger(value) && (value as number) > 0) return value as number
  throw invalidArgument(
    'parameters.sequence_id',
    `a whole number, 0 or more and less than 2^53, or a string of ${maxNameLength} characters at most`,
    value,
  )
}

/** An output that the request asks for, and its form. */
export interface RequestedOutput {
  readonly name: string
  readonly binary: boolean
  /** Return the classes with the highest scores, so many, instead of the tensor; 0 for the tensor. */
  readonly classes: number
}

/**
 * The outputs that a request asks for. If it names none: all outputs that are tensors.
 *
 * @throws InferenceError `ERR_INVALID_ARG`; HttpFailure 501 for shared memory.
 */
function readOutputs(
  request: Fields,
  parameters: Fields,
  metadata: ModelMetadata,
  { maxTensors, maxNameLength }: ResolvedKserveOptions,
): readonly RequestedOutput[] {
  const binary = parameters.flag('binary_data_output') ?? false
  const outputs = request.list('outputs', maxTensors) ?? []
  if (outputs.length === 0) return allOutputs(metadata, binary)
  const names = tensorsOf(metadata)
  return outputs.map((each, index) => {
    const where = `outputs[${index}]`
    const output = new Fields(each, where)
    const own = output.parameters
    refuseSharedMemory(own, where)
    const name = output.given('name', output.text('name', maxNameLength), 'the name of an output')
    if (!names.includes(name))
      throw invalidArgument(`${where}.name`, `a tensor out of ${listNames(names)}`, name, {
        model: metadata.name,
      })
    return {
      name,
      binary: own.flag('binary_data') ?? binary,
      classes: own.count('classification') ?? 0,
    }
  })
}

/** The protocol cannot express other values, such as the maps of a classifier. */
const tensorsOf = ({ outputs }: ModelMetadata): string[] =>
  outputs.filter(({ type }) => isElementType(type)).map(({ name }) => name)

/** Whether these are all outputs of the model, each once. */
function areAll(outputs: readonly RequestedOutput[], { outputs: { length } }: ModelMetadata): boolean {
  return outputs.length === length && new Set(outputs.map(({ name }) => name)).size === length
}

function allOutputs(metadata: ModelMetadata, binary: boolean): readonly RequestedOutput[] {
  const names = tensorsOf(metadata)
  if (names.length > 0) return names.map((name) => ({ name, binary, classes: 0 }))
  throw invalidArgument(
    'outputs',
    'a model with an output that is a tensor',
    metadata.outputs.map(({ type }) => type),
    { model: metadata.name },
  )
}

/**
 * Reads a body without JSON: one row of the model's only input. The answer has all outputs as binary data.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function* readRawCall(
  body: Uint8Array,
  metadata: ModelMetadata,
  options: ResolvedKserveOptions,
): Pieces<InferCall> {
  const { inputs, maxBatchSize, name: model } = metadata
  const [input] = inputs
  const wrong = (expected: string, received: unknown) =>
    invalidArgument('A body without JSON (Inference-Header-Content-Length: 0)', expected, received, { model })
  if (input === undefined || inputs.length > 1 || !isElementType(input.type))
    throw wrong('a model whose only input is a tensor', `one with ${inputs.length} inputs`)
  const { name, type, shape } = input
  const row = shape.map((dim, axis) =>
    typeof dim === 'number' ? dim : maxBatchSize > 0 && axis === batchAxisOf(input) ? 1 : null,
  )
  if (row.filter((dim) => dim === null).length > 1)
    throw wrong('a model with one open dimension at most', shownShape(shape))
  const dims = row.map((dim) => dim ?? openDim(type, row, body.byteLength))
  if (type !== 'string')
    return callOf(metadata, input, dims, yield* binaryElements(`input '${name}'`, type, dims, body, options))
  // The whole body is the text, without a length before it.
  if (elementCount(dims) !== 1 || !isUtf8(body))
    throw wrong(
      'one text in UTF-8, for an input of one',
      `${body.byteLength} bytes for shape ${shownShape(shape)}`,
    )
  return callOf(metadata, input, dims, [
    Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(),
  ])
}

/** The size that the bytes allow. The caller detects a remainder. */
function openDim(type: ElementType, row: readonly (number | null)[], bytes: number): number {
  return type === 'string'
    ? 1
    : Math.floor(bytes / Math.max(1, byteLengthOf(type, elementCount(row.map((dim) => dim ?? 1)))))
}

function callOf(
  metadata: ModelMetadata,
  { name, type }: ValueMetadata,
  dims: readonly number[],
  data: unknown,
): InferCall {
  const feeds = Object.fromEntries([[name, tensorOf(type as ElementType, dims, data)]])
  const outputs = allOutputs(metadata, true)
  const wantsAll = areAll(outputs, metadata)
  return { feeds, header: { id: undefined, options: {}, outputs, wantsAll, lastAnswer: null } }
}
