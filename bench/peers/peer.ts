import type { Level, Workload, WorkloadName } from './workload.ts'

/** A program and how it is started. */
export interface Command {
  readonly file: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

export type Versions = Readonly<Record<string, string>>

interface AnyPeer {
  readonly name: string
  readonly describe: string
  /** Makes on first use what it needs, below the cache, and tells what is used. @throws PeerMissing where it cannot be had. */
  setUp(options: PeerOptions): Promise<Versions>
  /** Why it has no answer to a workload, if so. */
  lacks?(workload: WorkloadName): string | null
  /** What the figures depend on, for the result. */
  settings(workload: Workload): Readonly<Record<string, unknown>>
  /** Computes in bfloat16 where the processor can. */
  readonly lowPrecision?: boolean
}

/** A program that makes its load itself. */
export interface InProcessPeer extends AnyPeer {
  readonly kind: 'in process'
  /** The program; what it is to do (`LoopInput`) is added as the last argument. */
  program(workload: Workload, levels: readonly Level[]): Command
}

/** A server that answers HTTP on a port of this machine. */
export interface HttpPeer extends AnyPeer {
  readonly kind: 'http'
  /**
   * @param ports free ones; the first is that of the requests.
   * @param folder an empty one, which is removed afterwards; its path is short.
   */
  server(workload: Workload, ports: readonly number[], folder: string): Command
  /** A path that answers 200 as soon as requests may come; a request of the workload is tried after it in any case. */
  readonly readyPath?: string
  request(workload: Workload, body: Buffer): HttpRequest
  /** The numbers of an answer. */
  answer(workload: Workload, response: HttpResponse): Float32Array
}

export type Peer = InProcessPeer | HttpPeer

export interface HttpRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface HttpResponse {
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** What may be said about peers on the command line. */
export interface PeerOptions {
  /** The folder of Triton's back ends, in which `onnxruntime` is. */
  readonly tritonBackends?: string
}

/** A peer cannot be had here; the message says why. */
export class PeerMissing extends Error {
  override readonly name = 'PeerMissing'
}
