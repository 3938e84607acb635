import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { outsideContext } from '../../base/async-context.ts'
import { classify, type Classification } from '../../engine/classification.ts'
import type { EngineStatistics } from '../../engine/engine-resources.ts'
import type { ModelState, ModelVersionStatus } from '../../engine/loaded.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import type { ModelStatistics } from '../../observe/model-statistics.ts'
import type { ReportedOutputs, InferOptions } from '../../options/infer-options.ts'
import {
  checkCloseOptions,
  checkLoadOptions,
  checkUnloadOptions,
  readVersion,
  type CloseOptions,
  type EngineInferOptions,
  type LoadOptions,
  type UnloadOptions,
} from '../../options/method-options.ts'
import type { ModelConfig } from '../../options/model-config.ts'
import type {
  AnySignature,
  LiteralConfig,
  ModelSignature,
  OutputName,
  SignatureOf,
  WantedOutputs,
  AnyOutputs,
} from '../../options/model-signature.ts'
import type { SequenceConfig } from '../../options/sequence-config.ts'
import type { InputConfig, OutputConfig } from '../../options/tensor-config.ts'
import { untilAborted } from '../../base/abort-watch.ts'
import type { InferManyOptions, InferManyResult, ItemSource } from '../../request/infer-many.ts'
import type { Capabilities } from '../../run/devices.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import { ClientConnection, noOptions, optionsLeft, readCallOptions, tooSilent } from './client-connection.ts'
import { checkConnectOptions, type CheckedConnectOptions, type ConnectOptions } from './process-options.ts'
import { addressOf, checkFolder, nativeProcesses } from './serving-place.ts'

/** The serving process, and the connection to it. */
export interface ServerInfo {
  /** Process id. */
  readonly process: number
  /** Version of the library in that process. */
  readonly version: string
  /** Whether requests and answers lie in shared memory; otherwise they use the socket. */
  readonly sharesMemory: boolean
}

/** A model of a serving process. */
export interface RemoteModelStatus {
  /** The name it is loaded under. */
  readonly name: string
  /** State of the version that serves the name. */
  readonly state: ModelState
  /** All known versions. */
  readonly versions: readonly ModelVersionStatus[]
}

/**
 * An engine of another process, or of another thread. Created by {@link connect}. Requests in flight keep the
 * process alive; an idle engine does not. When the serving process goes, requests in flight reject with
 * `ERR_DISCONNECTED`, and the next call connects again.
 */
export class RemoteEngine {
  /** Path of the socket. */
  readonly path: string
  readonly #link: ServerLink

  private constructor(path: string, link: ServerLink) {
    this.path = path
    this.#link = link
  }

  /** See {@link connect}. */
  static async connect(path: string, options: ConnectOptions): Promise<RemoteEngine> {
    const link = new ServerLink(path, checkConnectOptions(path, options))
    await link.connected()
    return new RemoteEngine(path, link)
  }

  /** The serving process and the connection to it: the current or the last one. */
  get server(): ServerInfo {
    const { server, sharesMemory } = this.#link.connection
    return { process: server.process, version: server.version, sharesMemory }
  }

  /**
   * Loads a model in the serving process, like {@link InferenceEngine.load}; paths are relative to this
   * process. A model that a client has already loaded with the same configuration, and that serves, is
   * shared. When `options.signal` fires, the load is stopped there, unless another client waits for it or it has just
   * ended.
   *
   * @throws InferenceError as that does; `ERR_DISCONNECTED`.
   */
  load<
    const I extends readonly InputConfig[],
    const O extends readonly OutputConfig[],
    const S extends SequenceConfig = {},
    const Left extends readonly string[] = [],
  >(
    name: string,
    config: LiteralConfig<I, O, S, Left>,
    options?: LoadOptions,
  ): Promise<RemoteModel<SignatureOf<I, O, S, Left>>>
  load<M extends ModelSignature = AnySignature>(
    name: string,
    config?: ModelConfig,
    options?: LoadOptions,
  ): Promise<RemoteModel<M>>
  async load(name: string, config?: ModelConfig, options: LoadOptions = {}): Promise<RemoteModel> {
    if (typeof name !== 'string' || name === '') throw invalidArgument('name', 'a model name', name)
    const { signal } = checkLoadOptions(options)
    signal?.throwIfAborted()
    const args = [name, config === undefined ? null : travelling(config)]
    const { version } = (await this.#link.call('load', args, signal)) as { version: number }
    return new RemoteModel(name, config?.version === undefined ? undefined : version, this.#link)
  }

  /** Like {@link InferenceEngine.infer}; see {@link RemoteModel.infer}. */
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options: EngineInferOptions<Name, boolean> & { report: true },
  ): Promise<ReportedOutputs<WantedOutputs<M, Name>>>
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options?: EngineInferOptions<Name>,
  ): Promise<WantedOutputs<M, Name>>
  infer<M extends ModelSignature = AnySignature, Name extends OutputName<M> = OutputName<M>>(
    name: string,
    feeds: M['inputs'],
    options?: EngineInferOptions<Name, boolean>,
  ): Promise<WantedOutputs<M, Name> | ReportedOutputs<WantedOutputs<M, Name>>>
  infer(
    name: string,
    feeds: AnySignature['inputs'],
    options?: EngineInferOptions<string, boolean>,
  ): Promise<unknown> {
    return this.#link.infer(name, feeds, options)
  }

  /** The model of that name, or one version of it. Its existence is checked at its first use. */
  model<M extends ModelSignature = AnySignature>(name: string, version?: number | string): RemoteModel<M> {
    return new RemoteModel<M>(
      name,
      version === undefined ? undefined : readVersion(version, 'version', { model: name }),
      this.#link,
    )
  }

  /** Lists the models. */
  models(): Promise<RemoteModelStatus[]> {
    return this.#link.call('models', []) as Promise<RemoteModelStatus[]>
  }

  /** Like {@link InferenceEngine.unload}, for all clients. */
  async unload(name: string, options: UnloadOptions = {}): Promise<void> {
    const { version } = checkUnloadOptions(options)
    await this.#link.call('unload', [name, version === undefined ? {} : { version }])
  }

  /** Like {@link InferenceEngine.stats}, for the serving process: requests of all processes count. */
  stats(): Promise<EngineStatistics> {
    return this.#link.call('stats', []) as Promise<EngineStatistics>
  }

  /** Like {@link InferenceEngine.capabilities}, for the serving process. */
  capabilities(): Promise<Capabilities> {
    return this.#link.call('capabilities', []) as Promise<Capabilities>
  }

  /**
   * Refuses new requests, waits for those in flight, and disconnects. The serving process goes on. May be
   * called more than once.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { timeoutMs } = checkCloseOptions(options)
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => void this.destroy(), timeoutMs)
    await this.#link.drained()
    clearTimeout(timer)
    await this.destroy()
  }

  /** Rejects requests in flight with `ERR_CLOSED`, and disconnects. May be called more than once. */
  async destroy(): Promise<void> {
    this.#link.end()
  }

  /** Same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** The configuration with absolute paths, as the other process may have another working directory. */
function travelling(config: ModelConfig): ModelConfig {
  const { path, dynamicBatching } = config
  if (typeof dynamicBatching === 'object' && typeof dynamicBatching?.cost === 'function') {
    throw invalidArgument(
      'dynamicBatching.cost',
      '{ input, dim }, as functions stay in their process',
      dynamicBatching.cost,
      { code: 'ERR_MODEL_CONFIG' },
    )
  }
  return typeof path === 'string' && !path.startsWith('file:') ? { ...config, path: resolve(path) } : config
}

const shortestPauseMs = 5
const longestPauseMs = 500
/** System error codes that mean that no process serves there now. */
const absences: readonly (string | undefined)[] = ['ENOENT', 'ECONNREFUSED', 'EAGAIN', 'ECONNRESET', 'EPIPE']

/** A serving process may be busy for so long, however short `timeoutMs` is. */
const shortestSilenceMs = 5000

/** The link of an engine, and of its models, to a serving process: connects, and again whenever that has gone. */
class ServerLink {
  /** The current connection, or the last one. {@link connected} makes the first, before anybody else has the link. */
  connection!: ClientConnection
  /** The path as given, for errors about what the caller did. */
  readonly #path: string
  /** The absolute path, as this process may change its working directory. */
  readonly #place: string
  readonly #address: string
  readonly #options: CheckedConnectOptions
  /** How long calls without a limit of their own wait for a process that sends nothing. */
  readonly #silenceMs: number
  readonly #ending = new AbortController()
  #reached: Promise<ClientConnection> | null = null
  #refuses = false

  constructor(path: string, options: CheckedConnectOptions) {
    this.#path = path
    this.#place = resolve(path)
    this.#address = addressOf(path)
    this.#options = options
    this.#silenceMs = Math.max(shortestSilenceMs, options.timeoutMs)
  }

  infer(name: string, feeds: unknown, options: unknown): Promise<unknown> {
    const { connection } = this
    if (connection.closed || this.#refuses || typeof name !== 'string')
      return this.#inferLater(name, feeds, options)
    try {
      return connection.infer(name, feeds, options)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async #inferLater(name: string, feeds: unknown, given: unknown): Promise<unknown> {
    if (typeof name !== 'string') throw invalidArgument('name', 'a model name', name)
    const beganMs = performance.now()
    const { limit, signal, options } = given === undefined ? noOptions : readCallOptions(given, name)
    if (limit === null) return (await untilAborted(this.connected(), signal)).infer(name, feeds, given)
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(tooSilent(name, limit, this.#path)), limit.ms)
    const connection = await untilAborted(untilAborted(this.connected(), signal), late.signal).finally(() =>
      clearTimeout(timer),
    )
    return connection.infer(name, feeds, { ...optionsLeft(options!, performance.now() - beganMs), signal })
  }

  /** Calls any other method of the engine. */
  async call(method: string, args: readonly unknown[], signal?: AbortSignal): Promise<unknown> {
    const connection = await untilAborted(this.connected(), signal)
    return connection.call(method, args, this.#silenceMs, signal)
  }

  /**
   * The connection, if necessary a new one. Concurrent calls share it.
   *
   * @throws InferenceError `ERR_DISCONNECTED`; `ERR_CLOSED` after {@link drained} or {@link end}.
   */
  async connected(): Promise<ClientConnection> {
    if (this.#refuses) throw this.#ended()
    if (this.connection?.closed !== false) this.connection = await outsideContext(() => this.#connectAgain())
    if (!this.#refuses) return this.connection
    this.connection.end(this.#ended()) // connected too late
    throw this.#ended()
  }

  #connectAgain(): Promise<ClientConnection> {
    this.#reached ??= this.#reach().finally(() => (this.#reached = null))
    return untilAborted(this.#reached, this.#ending.signal) // starting a process takes time
  }

  /** Refuses new requests; resolves when nothing is in flight. */
  drained(): Promise<void> {
    this.#refuses = true
    return this.connection.drained()
  }

  /** Rejects what is in flight, or waits for a connection, with `ERR_CLOSED`, and disconnects. */
  end(): void {
    this.#refuses = true
    const error = this.#ended()
    this.#ending.abort(error)
    this.connection.end(error)
  }

  #ended(): InferenceError {
    return new InferenceError('ERR_CLOSED', `The connection to ${this.#path} is closed.`, {
      expected: 'an open connection',
      received: 'a closed one',
    })
  }

  async #reach(): Promise<ClientConnection> {
    const { timeoutMs, spawn, sharedMemory } = this.#options
    const endMs = performance.now() + timeoutMs
    for (let pauseMs = shortestPauseMs; ; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      const leftMs = Math.max(1, endMs - performance.now())
      try {
        checkFolder(this.#place, false)
        const processes = sharedMemory ? nativeProcesses() : null
        const connection = await ClientConnection.open(this.#place, this.#address, processes, leftMs)
        if (!this.#ending.signal.aborted) return connection
        connection.close('it answered too late')
      } catch (error) {
        const isAbsent = absences.includes((error as NodeJS.ErrnoException).code)
        if (error instanceof InferenceError) throw error
        if (!isAbsent || performance.now() >= endMs) throw this.#unreachable(error as Error, isAbsent)
      }
      const starting = spawn === null ? null : await import('./spawn-server.ts') // saves memory
      this.#ending.signal.throwIfAborted()
      if (spawn !== null) await starting!.startServer(this.#place, spawn, leftMs)
      // Random pauses keep many clients from retrying at the same time.
      await sleep(pauseMs * (0.5 + Math.random()), undefined, { signal: this.#ending.signal }).catch(() => {})
    }
  }

  #unreachable(cause: Error, isAbsent: boolean): InferenceError {
    const what = isAbsent
      ? `No process serves at ${this.#place}`
      : `Cannot connect to the process that serves at ${this.#place}`
    const next =
      isAbsent && this.#options.spawn === null
        ? 'Start the serving process, or let `spawn` start it.'
        : 'See the cause.'
    return new InferenceError('ERR_DISCONNECTED', `${what}: ${cause.message}. ${next}`, {
      name: 'path',
      received: this.#place,
      cause,
    })
  }
}

const defaultInFlight = 128

/**
 * A model of another process: whichever is loaded there under its name at the time of a call. It is looked up
 * at its first use.
 */
export class RemoteModel<M extends ModelSignature = AnySignature> {
  /** The name it is loaded under. */
  readonly name: string
  /** The version that answers; `undefined` for the newest ready one. */
  readonly version: number | undefined
  readonly #link: ServerLink

  /** @internal */
  constructor(name: string, version: number | undefined, link: ServerLink) {
    this.name = name
    this.version = version
    this.#link = link
  }

  /**
   * Like {@link Model.infer}. The data of `feeds` is read during the call, unless it has to connect first.
   *
   * @throws InferenceError as that does; `ERR_MODEL_NOT_FOUND`; `ERR_QUEUE_FULL` if this process has too many
   * requests in flight; `ERR_DISCONNECTED`.
   */
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options: InferOptions<Name, boolean> & { report: true },
  ): Promise<ReportedOutputs<WantedOutputs<M, Name>>>
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options?: InferOptions<Name>,
  ): Promise<WantedOutputs<M, Name>>
  infer<Name extends OutputName<M> = never>(
    feeds: M['inputs'],
    options?: InferOptions<Name, boolean>,
  ): Promise<WantedOutputs<M, Name> | ReportedOutputs<WantedOutputs<M, Name>>>
  infer(feeds: M['inputs'], options?: InferOptions<string, boolean>): Promise<unknown> {
    return this.#link.infer(
      this.name,
      feeds,
      this.version === undefined ? options : { ...options, version: this.version },
    )
  }

  /** Like {@link Model.inferMany}. */
  async *inferMany<Name extends OutputName<M> = never>(
    source: ItemSource<M['inputs']>,
    options?: InferManyOptions<Name>,
  ): AsyncGenerator<InferManyResult<WantedOutputs<M, Name>>, void, undefined> {
    const { inferMany } = await outsideContext(() => import('../../request/infer-many.ts')) // saves memory
    const streamed = {
      name: this.name,
      start: () => ({ defaultInFlight, room: () => this.#link.connection.room }),
      infer: (feeds: M['inputs'], each: InferOptions) => this.infer(feeds, each as InferOptions<Name>),
    }
    yield* inferMany(streamed, source, options)
  }

  /** Like {@link Model.metadata}. */
  metadata(): Promise<ModelMetadata> {
    return this.#link.call('metadata', [this.name, this.version]) as Promise<ModelMetadata>
  }

  /** Like {@link Model.stats}: requests of all processes count. */
  stats(): Promise<ModelStatistics> {
    return this.#link.call('modelStats', [this.name, this.version]) as Promise<ModelStatistics>
  }

  /**
   * Like {@link Model.classification}, with the labels that the model has there now.
   *
   * @throws InferenceError as that does; `ERR_MODEL_NOT_FOUND` and `ERR_DISCONNECTED`.
   */
  classification(
    outputs: Partial<AnyOutputs>,
    count?: number,
    output?: OutputName<M>,
  ): Promise<Classification[][]>
  classification(
    outputs: Partial<AnyOutputs>,
    count: number | undefined,
    output: OutputName<M> | undefined,
    axis: number,
  ): Promise<Classification[][][]>
  async classification(
    outputs: Partial<AnyOutputs>,
    count = 1,
    output?: OutputName<M>,
    axis?: number,
  ): Promise<Classification[][] | Classification[][][]> {
    const { metadata, labels } = (await this.#link.call('classes', [this.name, this.version])) as {
      metadata: ModelMetadata
      labels: readonly [string, readonly string[]][]
    }
    return classify(metadata, new Map(labels), { outputs, count, output }, axis)
  }

  /** Unloads the model there, for all clients. */
  async unload(): Promise<void> {
    const options: UnloadOptions = this.version === undefined ? {} : { version: this.version }
    await this.#link.call('unload', [this.name, options])
  }
}
