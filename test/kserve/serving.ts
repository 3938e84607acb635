import { createServer, request, type IncomingHttpHeaders, type Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import { kserve, type KserveOptions } from '../../src/adapters/kserve/kserve.ts'

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** A server of `node:http` for one test, and ways to call it. */
export class Serving {
  readonly port: number

  private constructor(port: number) {
    this.port = port
  }

  static async of(engine: InferenceEngine, options?: KserveOptions): Promise<Serving> {
    const handle = kserve(engine, options)
    return Serving.by(
      createServer(
        (incoming, response) =>
          void handle(incoming, response).then((handled) => handled || response.writeHead(418).end()),
      ),
    )
  }

  static async by(server: Server): Promise<Serving> {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    return new Serving((server.address() as AddressInfo).port)
  }

  /** A call with these bytes, of which the request's headers may tell anything. */
  call(
    method: string,
    path: string,
    body: Uint8Array | string = '',
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const outgoing = request(
        {
          port: this.port,
          host: '127.0.0.1',
          method,
          path,
          headers: { 'content-length': Buffer.byteLength(body), ...headers },
          agent: false,
        },
        (incoming) => {
          const chunks: Buffer[] = []
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject)
          incoming.on('end', () =>
            resolve({ status: incoming.statusCode!, headers: incoming.headers, body: Buffer.concat(chunks) }),
          )
        },
      )
      outgoing.on('error', reject)
      outgoing.end(body)
    })
  }

  async get(path: string): Promise<{ status: number; json: any }> {
    const { status, body } = await this.call('GET', path)
    return { status, json: body.length === 0 ? undefined : JSON.parse(body.toString()) }
  }

  /** A call of JSON, answered with JSON. */
  async post(
    path: string,
    value: unknown,
  ): Promise<{ status: number; json: any; headers: IncomingHttpHeaders }> {
    const { status, headers, body } = await this.call(
      'POST',
      path,
      typeof value === 'string' ? value : JSON.stringify(value),
    )
    return { status, headers, json: body.length === 0 ? undefined : JSON.parse(body.toString()) }
  }

  /** An inference with binary tensors behind its JSON. */
  async binary(
    model: string,
    value: unknown,
    tensors: readonly Uint8Array[],
    headers: Record<string, string> = {},
  ): Promise<{ status: number; json: any; tensors: Buffer; headers: IncomingHttpHeaders }> {
    const json = Buffer.from(JSON.stringify(value))
    const body = Buffer.concat([json, ...tensors])
    const answer = await this.call('POST', `/v2/models/${model}/infer`, body, {
      'inference-header-content-length': String(json.length),
      ...headers,
    })
    const length = Number(answer.headers['inference-header-content-length'] ?? answer.body.length)
    return {
      status: answer.status,
      headers: answer.headers,
      json: JSON.parse(answer.body.subarray(0, length).toString()),
      tensors: answer.body.subarray(length),
    }
  }

  /** Writes just this to a connection, and gives what comes until the server ends it. */
  async raw(bytes: string): Promise<string> {
    const socket = connect(this.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(bytes)
    return text(socket).catch(() => 'reset')
  }
}

/** The bytes of typed arrays. */
export const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer =>
  Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)

/** Elements of BYTES. */
export function byteElements(...elements: (string | Uint8Array)[]): Buffer {
  return Buffer.concat(
    elements.flatMap((element) => {
      const length = Buffer.alloc(4)
      length.writeUInt32LE(Buffer.byteLength(element))
      return [length, Buffer.from(element as string)]
    }),
  )
}
