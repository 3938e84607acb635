import { Buffer } from 'node:buffer'
import type { Model } from '../model.ts'
import { invalidArgument } from '../errors.ts'
import type { Exchange } from './exchange.ts'
import { readInferCall, type InferCall } from './infer-call.ts'
import { classesPart, outputPart, type AnsweredTensor, type OutputPart } from './output-parts.ts'
import { readRawCall } from './raw-call.ts'
import type { Reply } from './reply.ts'

const headerLength = 'inference-header-content-length'

/** Runs a request, and gives the answer: JSON, and behind it the bytes of the tensors that are not in that. */
export async function infer(exchange: Exchange, model: Model): Promise<Reply> {
  const jsonBytes = headerLengthOf(exchange.request.headers[headerLength])
  const body = await exchange.body(jsonBytes)
  const { metadata } = model
  const call = jsonBytes === 0 ? readRawCall(body, metadata) : readInferCall(body, jsonBytes, metadata, exchange.options)
  const { version } = model // of what takes the request now
  const outputs = await model.infer(call.feeds, { ...call.options, outputs: call.outputs.map(({ name }) => name), signal: exchange.signal })
  const parts = call.outputs.map((output) => partOf(model, output, outputs as Record<string, AnsweredTensor>))
  return replyOf(call, model.name, version, parts)
}

function headerLengthOf(header: string | string[] | undefined): number | undefined {
  if (header === undefined || /^\d{1,15}$/.test(String(header))) return header === undefined ? undefined : Number(header)
  throw invalidArgument('Inference-Header-Content-Length', 'a whole number', header)
}

function partOf(model: Model, { name, binary, classes }: InferCall['outputs'][number], outputs: Record<string, AnsweredTensor>): OutputPart {
  const tensor = outputs[name]!
  if (classes === 0) return outputPart(name, tensor, binary)
  const { shape } = model.metadata.outputs.find((output) => output.name === name)!
  const isBatched = tensor.dims.length > 1 && typeof shape[0] === 'string'
  return classesPart(name, model.classification(outputs as never, classes, name), isBatched, binary)
}

function replyOf({ id }: InferCall, model: string, version: number, outputs: readonly OutputPart[]): Reply {
  const about = { ...(id === undefined ? {} : { id }), model_name: model, model_version: String(version) }
  const json = Buffer.from(`${JSON.stringify(about).slice(0, -1)},"outputs":[${outputs.map(({ text }) => text).join()}]}`)
  const bytes = outputs.flatMap((output) => output.bytes ?? [])
  if (!outputs.some((output) => output.bytes !== null)) return { status: 200, headers: { 'content-type': 'application/json' }, parts: [json] }
  return { status: 200, headers: { 'content-type': 'application/octet-stream', 'Inference-Header-Content-Length': String(json.byteLength) }, parts: [json, ...bytes] }
}
