import { floatsOf } from './answers.ts'
import type { HttpPeer, HttpRequest } from './peer.ts'
import type { Workload } from './workload.ts'

/** Requests of the KServe protocol, version 2, as Triton speaks it: JSON, or its extension of binary tensors. https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md */

const headerLength = 'inference-header-content-length'

export const kserve: Pick<HttpPeer, 'request' | 'answer' | 'readyPath'> = {
  readyPath: '/v2/health/ready',
  request(workload, body): HttpRequest {
    const { model, json, jpeg } = workload
    const path = '/v2/models/peer/infer'
    const input = {
      name: model.input,
      ...(jpeg ? { datatype: 'BYTES', shape: [1, 1] } : { datatype: 'FP32', shape: [1, ...model.rowDims] }),
    }
    if (json) {
      const text = JSON.stringify({ inputs: [{ ...input, data: Array.from(floatsOf(body)) }] })
      return { path, headers: { 'content-type': 'application/json' }, body: Buffer.from(text) }
    }
    const tensor = jpeg ? Buffer.concat([lengthOf(body), body]) : body
    const inputs = [{ ...input, parameters: { binary_data_size: tensor.length } }]
    const text = Buffer.from(
      JSON.stringify({ inputs, outputs: [{ name: model.output, parameters: { binary_data: true } }] }),
    )
    return {
      path,
      headers: { 'content-type': 'application/octet-stream', [headerLength]: String(text.length) },
      body: Buffer.concat([text, tensor]),
    }
  },
  answer({ json }: Workload, { headers, body }) {
    if (!json) return floatsOf(body.subarray(Number(headers[headerLength])))
    return Float32Array.from(
      (JSON.parse(body.toString()) as { outputs: { data: number[] }[] }).outputs[0]!.data,
    )
  },
}

/** What is before each element of BYTES. */
function lengthOf(element: Buffer): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(element.length)
  return bytes
}
