import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import * as v from 'valibot'
import { nextTurn } from '../../base/clock.ts'
import type { InferenceEngine } from '../../engine.ts'
import { resourcesOf } from '../../engine/engine-resources.ts'
import type { ServableConfig } from '../../engine/model-registry.ts'
import type { ModelState } from '../../engine/loaded.ts'
import { cut, InferenceError, invalidArgument } from '../../errors.ts'
import type { Model } from '../../model.ts'
import { optionsOf, parseOptions, wholeFrom } from '../../options/options-schema.ts'
import { isByForeignName, isOfAnotherSite } from '../http/http-requests.ts'
import {
  Exchange,
  HeldBytes,
  emptyReply,
  httpFailureOf,
  HttpFailure,
  jsonReply,
  type Reply,
} from './exchange.ts'
import { infer } from './infer.ts'
import { Fields, fieldsPieces } from './json-fields.ts'
import { modelConfigJson, modelMetadata, serverMetadata, statisticsJson } from './model-descriptions.ts'

/**
 * Answers requests of the KServe protocol, and resolves with `true` when the answer is sent. For any other
 * request it calls `next` and resolves with `false`; without `next` it answers 404. It never rejects.
 */
export type KserveHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  next?: () => void,
) => Promise<boolean>

/**
 * Serves the models of an engine by the KServe protocol, version 2, as Triton does over HTTP. Mount the
 * handler in a `node:http` server or a framework, before anything that reads request bodies.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function kserve(engine: InferenceEngine, options: KserveOptions = {}): KserveHandler {
  if (typeof (engine as Partial<InferenceEngine> | undefined)?.infer !== 'function')
    throw invalidArgument('engine', 'an InferenceEngine', engine)
  const settings = checkKserveOptions(options)
  const held = new HeldBytes(settings.maxHeldBytes)
  return async (request, response, next) => {
    const { method, url } = request
    let route: Route | HttpFailure | null
    try {
      route = routeOf(method, url)
    } catch (error) {
      route = httpFailureOf(error)
    }
    if (route === null && next !== undefined) {
      next()
      return false
    }
    route ??= new HttpFailure(404, 'Not Found: this server has only the KServe protocol, at /v2 and below.')
    // Its response waits for the one to an earlier request.
    const pipelined = response.socket === null ? PipelinedRequests.of(request.socket) : undefined
    if (pipelined !== undefined && !(await pipelined.turn(response))) return true
    const exchange = new Exchange(request, response, settings, held)
    try {
      if (route instanceof HttpFailure) throw route
      if (!route.isUnlimited) exchange.limit()
      await exchange.send(await route.answer(exchange, engine))
    } catch (error) {
      const { status, message, headers } = httpFailureOf(error)
      await exchange.send(jsonReply({ error: message }, status, headers))
    } finally {
      exchange.end()
      pipelined?.ended()
    }
    return true
  }
}

/** Pipelined requests that begin in one turn of the event loop, of all connections together. */
const mostPerTurn = 2
/** Pipelined requests of a connection that may be in flight. When as many wait, its socket is not read. */
const mostOfConnection = 64

/**
 * The pipelined requests of a connection. Hundreds come in one packet, and other clients would wait for all:
 * they begin in turns of the event loop, and connections take turns. Node.js stops reading a socket only when
 * answers pile up. Requests that wait, here or for a model, have no answer yet, so they are limited here. What
 * has been read of a socket cannot be put back: about 64 KiB of requests wait in addition to the limit.
 */
class PipelinedRequests {
  static readonly #ofSockets = new WeakMap<Socket, PipelinedRequests>()
  /** Connections whose next request may begin, in the order of their turns. */
  static readonly #ready = new Set<PipelinedRequests>()
  static #turnIsDue = false

  readonly #socket: Socket
  readonly #waiting: { readonly response: ServerResponse; readonly begin: (begins: boolean) => void }[] = []
  #inFlight = 0

  static of(socket: Socket): PipelinedRequests {
    const known = PipelinedRequests.#ofSockets.get(socket)
    if (known !== undefined) return known
    const requests = new PipelinedRequests(socket)
    PipelinedRequests.#ofSockets.set(socket, requests)
    return requests
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('resume', this.#holdBack) // Node.js resumes a socket after each request that it has read
    socket.once('close', () => {
      for (const { begin } of this.#waiting.splice(0)) begin(false)
    })
  }

  /** Resolves when the request may begin, or with `false` if the connection closes before. */
  turn(response: ServerResponse): Promise<boolean> {
    if (this.#socket.destroyed) return Promise.resolve(false)
    return new Promise((begin) => {
      const request = { response, begin }
      this.#waiting.push(request)
      this.#holdBack()
      this.#queue()
      // Middleware may have changed the order. When the response is the next to be sent, the others wait for it.
      response.once('socket', () => {
        const at = this.#waiting.indexOf(request)
        if (at > 0) this.#waiting.unshift(...this.#waiting.splice(at, 1))
        this.#queue()
      })
    })
  }

  /** A request that has begun is answered, or its client has gone. */
  ended(): void {
    this.#inFlight--
    this.#queue()
  }

  readonly #holdBack = (): void => {
    // A socket that is paused while Node.js is about to resume it is read nevertheless, until it emits 'pause' again.
    if (this.#waiting.length >= mostOfConnection) this.#socket.pause().emit('pause')
  }

  #queue(): void {
    const [first] = this.#waiting
    if (first === undefined || (this.#inFlight >= mostOfConnection && first.response.socket === null)) return
    PipelinedRequests.#ready.add(this)
    if (!PipelinedRequests.#turnIsDue) nextTurn(PipelinedRequests.#beginSome)
    PipelinedRequests.#turnIsDue = true
  }

  #begin(): void {
    PipelinedRequests.#ready.delete(this)
    const request = this.#waiting.shift()
    if (request === undefined) return // the connection has closed
    this.#inFlight++
    request.begin(true)
    if (this.#waiting.length === mostOfConnection - 1) this.#socket.resume()
    this.#queue()
  }

  static readonly #beginSome = (): void => {
    let left = mostPerTurn
    for (const requests of PipelinedRequests.#ready) {
      if (left-- === 0) break
      requests.#begin()
    }
    PipelinedRequests.#turnIsDue = PipelinedRequests.#ready.size > 0
    if (PipelinedRequests.#turnIsDue) nextTurn(PipelinedRequests.#beginSome)
  }
}

/** A call of the protocol. */
interface Route {
  readonly method: 'GET' | 'POST'
  /** Whether `timeoutMs` does not apply: loading and unloading may take long. */
  readonly isUnlimited?: boolean
  answer(exchange: Exchange, engine: InferenceEngine): Reply | Promise<Reply>
}

const callsOfServer: Readonly<Record<string, Route>> = {
  '/v2': { method: 'GET', answer: ({ options }) => jsonReply(serverMetadata(options.serverName)) },
  '/v2/health/live': { method: 'GET', answer: () => emptyReply },
  '/v2/health/ready': {
    method: 'GET',
    answer: (_, engine) => {
      if (engine.models().every(({ state }) => state === 'ready')) return emptyReply
      throw new HttpFailure(503, 'Not every model is ready')
    },
  },
  '/v2/models/stats': { method: 'GET', answer: (_, engine) => jsonReply(statisticsJson(engine.stats())) },
  '/v2/repository/index': { method: 'POST', answer: repositoryIndex },
}

/** By the end of the path; `named` is the version that the path names. */
const callsOfModel: Readonly<
  Record<
    string,
    (model: Model, exchange: Exchange, engine: InferenceEngine, named?: string) => Reply | Promise<Reply>
  >
> = {
  '': (model, _, engine) => jsonReply(modelMetadata(model, configOf(engine, model))),
  '/config': (model, _, engine) => jsonReply(modelConfigJson(model.metadata, configOf(engine, model))),
  '/stats': ({ name, version }, _, engine, named) =>
    jsonReply(statisticsJson(engine.stats(), name, named === undefined ? undefined : version)),
  '/ready': ({ name, state }) => {
    if (state === 'ready') return emptyReply
    throw new HttpFailure(503, `Model '${name}' is ${state}, not ready`)
  },
  '/infer': (model, exchange) => infer(exchange, model),
}
const ofModel = /^\/v2\/models\/([^/]+)(?:\/versions\/([^/]+))?(\/ready|\/config|\/stats|\/infer)?$/
const ofRepository = /^\/v2\/repository\/models\/([^/]+)\/(load|unload)$/

/** Calls of Triton that are not supported, and what to use instead. */
const refused: readonly (readonly [path: RegExp, what: string, instead: string])[] = [
  [
    /^\/v2\/systemsharedmemory(\/|$)/,
    'System shared memory is',
    'Send tensors as binary data; within one machine zerohop/processes shares memory',
  ],
  [/^\/v2\/cudasharedmemory(\/|$)/, 'CUDA shared memory is', 'Send tensors as binary data'],
  [
    /^\/v2\/(models\/[^/]+\/)?trace\/setting$/,
    'Trace settings are',
    'Trace with engine.trace in the process that serves',
  ],
  [/^\/v2\/logging$/, 'Log settings are', 'Listen to the events of the engine in the process that serves'],
  [
    /^\/v2\/models\/[^/]+(\/versions\/[^/]+)?\/generate(_stream)?$/,
    'The generate extension is',
    'Call infer',
  ],
]

/** Routes by their URLs, as the path alone decides: to find one takes 2 % of the time of a small request. */
const routes = new Map<string, Route>()
const mostRoutes = 256
/** Longer URLs are not kept, in characters. */
const mostKeptUrl = 256

/**
 * The route of a request; `null` if it does not belong to the protocol.
 *
 * @throws HttpFailure 404, 405, 501 for unsupported calls of Triton, 400 for a malformed path.
 */
function routeOf(method: string | undefined, url: string | undefined): Route | null {
  const known = routes.get(url ?? '')
  if (known !== undefined && known.method === method) return known
  const path = (url ?? '').split(/[?#]/, 1)[0]!.replace(/(?<=.)\/$/, '')
  if (path !== '/v2' && !path.startsWith('/v2/')) return null
  const route = find(path)
  if (route !== null) {
    const allowed = route.method === 'POST' ? ['POST'] : ['GET', 'HEAD']
    if (!allowed.includes(method ?? ''))
      throw new HttpFailure(405, `${path.slice(0, 200)}: expected ${allowed[0]}, received ${method}.`, {
        allow: allowed.join(', '),
      })
    if (url!.length > mostKeptUrl) return route
    if (routes.size === mostRoutes) routes.delete(routes.keys().next().value!)
    routes.set(url!, route)
    return route
  }
  const [, what, instead] = refused.find(([pattern]) => pattern.test(path)) ?? []
  if (what !== undefined)
    throw new HttpFailure(501, `${what} not supported (${path.slice(0, 200)}). ${instead}.`)
  throw new HttpFailure(404, `Not Found: the protocol has no ${path.slice(0, 200)}`)
}

function find(path: string): Route | null {
  if (Object.hasOwn(callsOfServer, path)) return callsOfServer[path]!
  const [, model, version, call = ''] = ofModel.exec(path) ?? []
  if (model !== undefined) {
    const name = decoded(model)
    const named = version === undefined ? undefined : decoded(version)
    return {
      method: call === '/infer' ? 'POST' : 'GET',
      answer: (exchange, engine) =>
        callsOfModel[call]!(findModel(engine, name, named), exchange, engine, named),
    }
  }
  const [, controlled, action] = ofRepository.exec(path) ?? []
  if (controlled === undefined) return null
  const name = decoded(controlled)
  return {
    method: 'POST',
    isUnlimited: true,
    answer: (exchange, engine) => controlModel(exchange, engine, name, action as 'load' | 'unload'),
  }
}

/** @throws HttpFailure 404, with the message that Triton's clients know. */
function findModel(engine: InferenceEngine, name: string, version: string | undefined): Model {
  try {
    return engine.model(name, version)
  } catch (error) {
    if (!(error instanceof InferenceError) || error.code !== 'ERR_MODEL_NOT_FOUND') throw error
    throw new HttpFailure(
      404,
      `Request for unknown model: '${cut(name, 200)}'${version === undefined ? '' : ` version ${version}`} is not found`,
    )
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new HttpFailure(400, `The path: expected percent-encoded UTF-8, received '${part.slice(0, 80)}'.`)
  }
}

const states: Readonly<Record<ModelState, string>> = {
  ready: 'READY',
  loading: 'LOADING',
  draining: 'UNLOADING',
  closed: 'UNAVAILABLE',
  failed: 'UNAVAILABLE',
}

/** The configuration of a large pipeline has a few thousand. */
const mostConfigCharacters = 2 ** 18

/** Lists all versions of the engine's models, and the models in its repositories that are not loaded. */
async function repositoryIndex(exchange: Exchange, engine: InferenceEngine): Promise<Reply> {
  const readyOnly = (await readFields(exchange)).flag('ready') ?? false
  const all = engine.models().flatMap(({ name, versions }) =>
    versions.map(({ version, state, failure }) => ({
      name,
      version: String(version),
      state: states[state],
      reason: failure ?? '',
    })),
  )
  if (readyOnly) return jsonReply(all.filter(({ state }) => state === 'READY'))
  const left = (await (await resourcesOf(engine).repositories).names()).filter(
    (name) => !all.some((each) => each.name === name),
  )
  return jsonReply([...all, ...left.map((name) => ({ name, state: 'UNAVAILABLE', reason: 'unloaded' }))])
}

/** The configuration of a model version, with defaults. */
function configOf(engine: InferenceEngine, { name, version }: Model): ServableConfig {
  return resourcesOf(engine).models.findTarget(name, version).serving.config
}

/** Loads a model as its folder is now, or unloads one. This goes on if the client leaves. */
async function controlModel(
  exchange: Exchange,
  engine: InferenceEngine,
  name: string,
  action: 'load' | 'unload',
): Promise<Reply> {
  if (!exchange.options.modelControl)
    throw new HttpFailure(
      403,
      `failed to ${action} '${name}': clients may do so only with kserve(engine, { modelControl: true })`,
    )
  const { request } = exchange
  // A browser sends such a request for any page, and always with Origin. Other clients do not send Origin.
  if (request.headers.origin !== undefined && (isOfAnotherSite(request) || isByForeignName(request)))
    throw new HttpFailure(403, `failed to ${action} '${name}': a page of another site may not`)
  const { parameters } = await readFields(exchange)
  try {
    if (action === 'load') await load(engine, name, parameters)
    else await unload(engine, name, parameters)
  } catch (error) {
    if (!(error instanceof InferenceError || error instanceof HttpFailure)) throw error
    const { status, message, headers } = httpFailureOf(error)
    throw new HttpFailure(status, `failed to ${action} '${name}': ${message}`, headers)
  }
  return emptyReply
}

async function load(engine: InferenceEngine, name: string, parameters: Fields): Promise<void> {
  const config = parameters.text('config', mostConfigCharacters)
  const other = parameters.names.find((each) => each !== 'config')
  if (other !== undefined)
    throw new HttpFailure(
      501,
      `parameters.${other.slice(0, 80)}: the files of a model are in its folder: change them there, and load it again`,
    )
  if (config === undefined) await engine.load(name)
  else await (await resourcesOf(engine).repositories).loadNamed(name, {}, config)
}

async function unload(engine: InferenceEngine, name: string, parameters: Fields): Promise<void> {
  if (parameters.flag('unload_dependents'))
    throw new HttpFailure(
      501,
      'parameters.unload_dependents: unload each of the models by its name, pipelines first',
    )
  await engine.unload(name)
}

/** The body of a repository call, which may be empty. */
async function readFields(exchange: Exchange): Promise<Fields> {
  const body = await exchange.body(
    null,
    Math.min(exchange.options.maxJsonBytes, exchange.options.maxBodyBytes),
  )
  return body.byteLength === 0
    ? new Fields({}, '', '')
    : exchange.work(fieldsPieces(body, exchange.options), body.byteLength)
}

/** Options and limits of {@link kserve}. */
export interface KserveOptions {
  /** Name in the server's metadata. Clients made for Triton may expect `'triton'`. Default `'zerohop'`. */
  serverName?: string
  /**
   * Whether clients may load models from the engine's repositories, and unload any model. Default `false`:
   * such requests get 403.
   */
  modelControl?: boolean
  /** Most bytes of a body. Default 64 MiB, as in Triton. */
  maxBodyBytes?: number
  /**
   * Most bytes of a decompressed body; a small compressed one can grow that much. `maxBodyBytes` applies as
   * well. Default 4 MiB.
   */
  maxDecompressedBytes?: number
  /** Most bytes of JSON in a body, and of text in binary `BYTES`. Default 16 MiB. */
  maxJsonBytes?: number
  /**
   * Most values and names in that JSON, most text elements in binary `BYTES`, and most classes in an output
   * with `classification`. Each takes many times its size in memory. An object may have 4096 names, whatever
   * this limit is: one with more is refused with `ERR_INVALID_ARG`. Default 1 048 576.
   */
  maxJsonValues?: number
  /**
   * Most bytes of the bodies of all requests at once; at least `maxBodyBytes`. A request beyond it gets 503.
   * Default 1 GiB.
   */
  maxHeldBytes?: number
  /** Most inputs, and most outputs, of a request. Default 64. */
  maxTensors?: number
  /** Most characters of a name, a request id or a sequence id. Default 256. */
  maxNameLength?: number
  /** Milliseconds a body may take to arrive; then 408. Default 30 000. */
  bodyTimeoutMs?: number
  /**
   * Milliseconds a request may take, from its headers to the last byte of the answer; then 504. Loading and
   * unloading are exempt. Default 60 000.
   */
  timeoutMs?: number
  /** Smaller answers are not compressed, in bytes; `Infinity` turns compression off. Default 1024. */
  compressFromBytes?: number
}

/** The options, checked, with defaults. */
export type ResolvedKserveOptions = Readonly<Required<KserveOptions>>

const mebibyte = 2 ** 20
/** Most bytes of a `Buffer` in every supported version of Node. */
const mostBytes = 2 ** 32

const optionsSchema = optionsOf({
  serverName: v.optional(
    v.custom<string>((given) => typeof given === 'string' && given !== '', "a string that is not ''"),
    'zerohop',
  ),
  modelControl: v.optional(
    v.custom<boolean>((given) => typeof given === 'boolean', 'true or false'),
    false,
  ),
  maxBodyBytes: v.optional(wholeFrom(1, mostBytes), 64 * mebibyte),
  maxDecompressedBytes: v.optional(wholeFrom(1, mostBytes), 4 * mebibyte),
  maxJsonBytes: v.optional(wholeFrom(1, 256 * mebibyte), 16 * mebibyte),
  maxJsonValues: v.optional(wholeFrom(1, 2 ** 26), 2 ** 20),
  maxHeldBytes: v.optional(wholeFrom(1, Number.MAX_SAFE_INTEGER)),
  maxTensors: v.optional(wholeFrom(1, 65_536), 64),
  maxNameLength: v.optional(wholeFrom(1, 65_536), 256),
  bodyTimeoutMs: v.optional(wholeFrom(1, 2 ** 31 - 1), 30_000),
  timeoutMs: v.optional(wholeFrom(1, 2 ** 31 - 1), 60_000),
  compressFromBytes: v.optional(
    v.custom<number>((given) => typeof given === 'number' && given >= 0, 'a number, 0 or more'),
    1024,
  ),
})

/** @throws InferenceError `ERR_INVALID_ARG`. */
export function checkKserveOptions(given: unknown): ResolvedKserveOptions {
  const options = parseOptions(optionsSchema, given, 'options')
  const { maxBodyBytes, maxHeldBytes = Math.max(1024 * mebibyte, maxBodyBytes) } = options
  if (maxHeldBytes < maxBodyBytes)
    throw invalidArgument('options.maxHeldBytes', `maxBodyBytes (${maxBodyBytes}) or more`, maxHeldBytes)
  return { ...options, maxHeldBytes }
}
