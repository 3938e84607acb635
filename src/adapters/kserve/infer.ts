import { Buffer } from 'node:buffer'
import { numbersText } from './json-fields.ts'
import type { Pieces } from '../../base/slices.ts'
import { classifyPieces } from '../../engine/classification.ts'
import { invalidArgument } from '../../errors.ts'
import type { Model } from '../../model.ts'
import { elementCount, type ElementType, type TensorData, toStorage } from '../../tensor/tensor.ts'
import type { Exchange, Reply } from './exchange.ts'
import { type InferHeader, readInferCall, readRawCall, type RequestedOutput } from './infer-call.ts'
import type { ResolvedKserveOptions } from './kserve.ts'
import { datatypeOf, isBinaryOnly, textBytes } from './tensor-elements.ts'

const headerLength = 'inference-header-content-length'

/** Runs a request and returns the answer: JSON, followed by the bytes of binary tensors. */
export async function infer(exchange: Exchange, model: Model): Promise<Reply> {
  const jsonBytes = headerLengthOf(exchange.request.headers[headerLength])
  const body = await exchange.body(jsonBytes ?? null)
  const { metadata } = model
  const call = await exchange.work(
    jsonBytes === 0
      ? readRawCall(body, metadata, exchange.options)
      : readInferCall(body, jsonBytes, metadata, exchange.options),
    body.byteLength,
  )
  const { header, feeds } = call
  const { version } = model // of the version that takes the request now
  const isSame = model.metadata === metadata // else the model was loaded again while the request was read
  const { timeoutMs, priority, sequenceId, sequenceStart, sequenceEnd, requestId } = header.options
  const answered = (await model.infer(feeds, {
    // Not spread: V8 would make a hidden class for each request.
    timeoutMs,
    priority,
    sequenceId,
    sequenceStart,
    sequenceEnd,
    requestId,
    // With no names the engine divides a batch faster.
    outputs: isSame && header.wantsAll ? undefined : header.outputs.map(({ name }) => name),
    signal: exchange.signal,
  })) as Record<string, AnsweredTensor>
  const reply = isSame ? likeLastReply(header, answered) : null
  if (reply !== null) return reply
  const pieces = replyOf(header, model, version, answered, exchange.options)
  const made = await exchange.work(pieces, bytesInJson(header, answered))
  if (isSame) keepReply(header, answered, made)
  return made
}

function headerLengthOf(header: string | string[] | undefined): number | undefined {
  if (header === undefined || /^\d{1,15}$/.test(String(header)))
    return header === undefined ? undefined : Number(header)
  throw invalidArgument('Inference-Header-Content-Length', 'a whole number', header)
}

/** Bytes of the tensors that the answer writes as JSON or classifies, to estimate how long that takes. */
function bytesInJson({ outputs }: InferHeader, answered: Record<string, AnsweredTensor>): number {
  return outputs.reduce(
    (sum, { name, binary, classes }) =>
      binary && classes === 0 ? sum : sum + 8 * (answered[name]!.data as ArrayLike<unknown>).length,
    0,
  )
}

/** The reply with the JSON of the last answer; `null` if a shape differs, or not all was binary. */
function likeLastReply(
  { outputs, lastAnswer }: InferHeader,
  answered: Record<string, AnsweredTensor>,
): Reply | null {
  if (lastAnswer === null) return null
  const parts: (Uint8Array | string)[] = [lastAnswer.json]
  for (let index = 0; index < outputs.length; index++) {
    const { type, dims, data } = answered[outputs[index]!.name]!
    const known = lastAnswer.dims[index]!
    if (dims.length !== known.length) return null
    for (let axis = 0; axis < dims.length; axis++) if (dims[axis] !== known[axis]) return null
    parts.push(bytesOf(toStorage(type, data)!))
  }
  return { status: 200, headers: lastAnswer.httpHeaders, parts }
}

/** Keeps the JSON of a reply with binary tensors only, but for text, whose length is in it. */
function keepReply(
  header: InferHeader,
  answered: Record<string, AnsweredTensor>,
  { headers = {}, parts }: Reply,
): void {
  const { outputs } = header
  if (
    outputs.some(({ name, binary, classes }) => !binary || classes > 0 || answered[name]!.type === 'string')
  )
    return
  header.lastAnswer = {
    dims: outputs.map(({ name }) => answered[name]!.dims),
    json: parts.slice(0, -outputs.length).join(''),
    httpHeaders: headers,
  }
}

function* replyOf(
  { id, outputs }: InferHeader,
  model: Model,
  version: number,
  answered: Record<string, AnsweredTensor>,
  options: ResolvedKserveOptions,
): Pieces<Reply> {
  const about = { id, model_name: model.name, model_version: String(version) }
  const json: (Uint8Array | string)[] = [`${JSON.stringify(about).slice(0, -1)},"outputs":[`]
  const bytes: Uint8Array[] = []
  for (const [index, output] of outputs.entries()) {
    const tensor = answered[output.name]!
    const part = yield* output.classes === 0
      ? outputPart(output.name, tensor, output.binary)
      : classesPart(model, output, tensor, options)
    if (index > 0) json.push(',')
    json.push(...part.json)
    if (part.bytes !== null) bytes.push(part.bytes)
  }
  json.push(']}')
  if (!outputs.some(({ binary }) => binary)) {
    const isText = json.every((part) => typeof part === 'string')
    return {
      status: 200,
      headers: { 'content-type': 'application/json' },
      parts: isText ? [json.join('')] : json,
    }
  }
  const jsonBytes = json.reduce((sum, part) => sum + Buffer.byteLength(part), 0)
  return {
    status: 200,
    headers: {
      'content-type': 'application/octet-stream',
      'Inference-Header-Content-Length': String(jsonBytes),
    },
    parts: [...json, ...bytes],
  }
}

/** Most elements written in one piece. */
const pieceElements = 2 ** 12
/** Approximate length of a part of JSON, in characters. */
const partLength = 2 ** 15

/** One output of an answer: its JSON, and its bytes if they are binary. */
interface OutputPart {
  /** JSON, in parts: long ones as bytes, which the garbage collector does not move. */
  readonly json: readonly (Uint8Array | string)[]
  readonly bytes: Uint8Array | null
}

/** A tensor of the engine's answer. */
interface AnsweredTensor {
  readonly type: ElementType
  readonly dims: readonly number[]
  readonly data: unknown
}

/**
 * Writes a tensor, in pieces. Binary data is the answer's own memory, not a copy.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for values that JSON cannot express.
 */
function* outputPart(
  name: string,
  { type, dims, data }: AnsweredTensor,
  binary: boolean,
): Pieces<OutputPart> {
  const about = { name, datatype: datatypeOf(type), shape: dims }
  if (!binary)
    return { json: yield* dataJson(JSON.stringify(about).slice(0, -1), name, type, data), bytes: null }
  const bytes = type === 'string' ? yield* textBytes(data as string[]) : bytesOf(toStorage(type, data)!)
  return {
    json: [JSON.stringify({ ...about, parameters: { binary_data_size: bytes.byteLength } })],
    bytes,
  }
}

/**
 * The classes of each row, as `value:index` and, where it has one, `:label`.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for more classes than a request may have values.
 */
function* classesPart(
  { metadata, labels }: Model,
  { name, binary, classes }: RequestedOutput,
  tensor: AnsweredTensor,
  { maxJsonValues }: ResolvedKserveOptions,
): Pieces<OutputPart> {
  const { shape } = metadata.outputs.find((output) => output.name === name)!
  const isBatched = tensor.dims.length > 1 && typeof shape[0] === 'string'
  const rows = isBatched ? tensor.dims[0]! : 1
  const count = rows === 0 ? 0 : Math.min(classes, elementCount(tensor.dims) / rows)
  if (rows * count > maxJsonValues)
    throw invalidArgument(
      `outputs '${name}'.parameters.classification`,
      `${maxJsonValues} classes at most for all rows together (maxJsonValues)`,
      rows * count,
      { hint: 'Ask for fewer classes, or for the tensor' },
    )
  const texts: string[] = []
  const classified = { outputs: { [name]: tensor }, count: classes, output: name }
  for (const row of yield* classifyPieces(metadata, labels, classified)) {
    for (const { value, index, label } of row) {
      texts.push(`${value}:${index}${label === undefined ? '' : `:${label}`}`)
      if (texts.length % pieceElements === 0) yield
    }
  }
  return yield* outputPart(
    name,
    { type: 'string', dims: isBatched ? [rows, count] : [count], data: texts },
    binary,
  )
}

function* dataJson(
  about: string,
  name: string,
  type: ElementType,
  data: unknown,
): Pieces<(Uint8Array | string)[]> {
  if (isBinaryOnly(type))
    throw invalidArgument(
      `outputs '${name}'`,
      'to be asked for as binary data',
      `JSON, which has no numbers of ${datatypeOf(type)}`,
      { hint: 'Ask for it with parameters { binary_data: true }' },
    )
  const elements = data as TensorData | string[]
  const parts: (Uint8Array | string)[] = []
  let text = `${about},"data":[`
  for (let at = 0; at < elements.length; at += pieceElements) {
    if (at > 0) text += ','
    text += elementsText(type, elements.slice(at, at + pieceElements))
    if (text.length < partLength) continue
    parts.push(Buffer.from(text))
    text = ''
    yield
  }
  return [...parts, `${text}]}`]
}

function elementsText(type: ElementType, elements: TensorData | string[]): string {
  if (type === 'string') return JSON.stringify(elements).slice(1, -1)
  if (type === 'bool') return Array.from(elements as Uint8Array, (element) => element !== 0).join()
  return numbersText(elements as TensorData)
}

function bytesOf({ buffer, byteOffset, byteLength }: TensorData): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}
