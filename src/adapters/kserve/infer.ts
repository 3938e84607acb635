import { Buffer } from 'node:buffer'
import { invalidArgument } from '../../errors.ts'
import type { Model } from '../../model.ts'
import type { Pieces } from '../../base/slices.ts'
import type { Exchange } from './exchange.ts'
import { readInferCall, type InferCall } from './infer-call.ts'
import { classesPart, outputPart, type AnsweredTensor, type OutputPart } from './output-parts.ts'
import { readRawCall } from './raw-call.ts'
import type { Reply } from './reply.ts'
import type { RequestedOutput } from './requested-outputs.ts'

const headerLength = 'inference-header-content-length'

/** Runs a request, and gives the answer: JSON, and behind it the bytes of the tensors that are not in that. */
export async function infer(exchange: Exchange, model: Model): Promise<Reply> {
  const jsonBytes = headerLengthOf(exchange.request.headers[headerLength])
  const body = await exchange.body(jsonBytes)
  const { metadata } = model
  const call = await exchange.work(
    jsonBytes === 0
      ? readRawCall(body, metadata, exchange.options)
      : readInferCall(body, jsonBytes, metadata, exchange.options),
    body.byteLength,
  )
  const { version } = model // of what takes the request now
  const outputs = (await model.infer(call.feeds, {
    ...call.options,
    outputs: call.outputs.map(({ name }) => name),
    signal: exchange.signal,
  })) as Record<string, AnsweredTensor>
  return exchange.work(replyOf(call, model, version, outputs), bytesInJson(call, outputs))
}

function headerLengthOf(header: string | string[] | undefined): number | undefined {
  if (header === undefined || /^\d{1,15}$/.test(String(header)))
    return header === undefined ? undefined : Number(header)
  throw invalidArgument('Inference-Header-Content-Length', 'a whole number', header)
}

/** What tells how long it takes to write the JSON of an answer. */
function bytesInJson({ outputs }: InferCall, answered: Record<string, AnsweredTensor>): number {
  return outputs.reduce(
    (sum, { name, binary }) => (binary ? sum : sum + 8 * (answered[name]!.data as ArrayLike<unknown>).length),
    0,
  )
}

function partOf(
  model: Model,
  { name, binary, classes }: RequestedOutput,
  outputs: Record<string, AnsweredTensor>,
): Pieces<OutputPart> {
  const tensor = outputs[name]!
  if (classes === 0) return outputPart(name, tensor, binary)
  const { shape } = model.metadata.outputs.find((output) => output.name === name)!
  const isBatched = tensor.dims.length > 1 && typeof shape[0] === 'string'
  return classesPart(name, model.classification(outputs as never, classes, name), isBatched, binary)
}

function* replyOf(
  { id, outputs }: InferCall,
  model: Model,
  version: number,
  answered: Record<string, AnsweredTensor>,
): Pieces<Reply> {
  const about = {
    ...(id === undefined ? {} : { id }),
    model_name: model.name,
    model_version: String(version),
  }
  const json: Uint8Array[] = [Buffer.from(`${JSON.stringify(about).slice(0, -1)},"outputs":[`)]
  const bytes: Uint8Array[] = []
  for (const [index, output] of outputs.entries()) {
    const part = yield* partOf(model, output, answered)
    if (index > 0) json.push(Buffer.from(','))
    json.push(...part.json)
    if (part.bytes !== null) bytes.push(part.bytes)
  }
  json.push(Buffer.from(']}'))
  if (!outputs.some(({ binary }) => binary))
    return { status: 200, headers: { 'content-type': 'application/json' }, parts: json }
  const jsonBytes = json.reduce((sum, { byteLength }) => sum + byteLength, 0)
  return {
    status: 200,
    headers: {
      'content-type': 'application/octet-stream',
      'Inference-Header-Content-Length': String(jsonBytes),
    },
    parts: [...json, ...bytes],
  }
}
