import type { IncomingMessage, ServerResponse } from 'node:http'
import type { InferenceEngine } from '../../engine.ts'
import { configOf } from '../../engine/engine-resources.ts'
import { cut, InferenceError, invalidArgument } from '../../errors.ts'
import type { Model } from '../../model.ts'
import { Exchange, HeldBytes } from './exchange.ts'
import { infer } from './infer.ts'
import { checkKserveOptions, type KserveOptions, type ResolvedKserveOptions } from './kserve-options.ts'
import { modelConfigJson, modelMetadata, serverMetadata, statisticsJson } from './model-descriptions.ts'
import { emptyReply, failureOf, HttpFailure, jsonReply, type Reply } from './reply.ts'
import { controlModel, repositoryIndex } from './repository.ts'

export type { KserveOptions } from './kserve-options.ts'

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
      route = failureOf(error)
    }
    if (route === null && next !== undefined) {
      next()
      return false
    }
    route ??= new HttpFailure(404, 'Not Found: this server has only the KServe protocol, at /v2 and below.')
    const exchange = new Exchange(request, response, settings, held)
    try {
      if (route instanceof HttpFailure) throw route
      if (route.to !== 'load' && route.to !== 'unload') exchange.limit() // they may take long
      await exchange.send(await answer(route, exchange, engine, settings))
    } catch (error) {
      const { status, message, headers } = failureOf(error)
      await exchange.send(jsonReply({ error: message }, status, headers))
    } finally {
      exchange.end()
    }
    return true
  }
}

function answer(
  route: Route,
  exchange: Exchange,
  engine: InferenceEngine,
  { serverName }: ResolvedKserveOptions,
): Reply | Promise<Reply> {
  switch (route.to) {
    case 'live':
      return emptyReply
    case 'ready':
      if (engine.models().every(({ state }) => state === 'ready')) return emptyReply
      throw new HttpFailure(503, 'Not every model is ready')
    case 'server':
      return jsonReply(serverMetadata(serverName))
    case 'statistics':
      return jsonReply(statisticsJson(engine.stats()))
    case 'index':
      return repositoryIndex(exchange, engine)
    case 'load':
    case 'unload':
      return controlModel(exchange, engine, route.name, route.to)
    default:
      return answerOfModel(route, exchange, engine)
  }
}

function answerOfModel(
  { to, model: name }: Extract<Route, { model: unknown }>,
  exchange: Exchange,
  engine: InferenceEngine,
): Reply | Promise<Reply> {
  const model = findModel(engine, name)
  switch (to) {
    case 'infer':
      return infer(exchange, model)
    case 'model-ready':
      if (model.state === 'ready') return emptyReply
      throw new HttpFailure(503, `Model '${model.name}' is ${model.state}, not ready`)
    case 'model-config':
      return jsonReply(modelConfigJson(model.metadata, configOf(engine, model.name, model.version)))
    case 'model-statistics':
      return jsonReply(
        statisticsJson(engine.stats(), model.name, name.version === undefined ? undefined : model.version),
      )
    case 'model':
      return jsonReply(modelMetadata(model, configOf(engine, model.name, model.version)))
  }
}

/** @throws HttpFailure 404, with the message that Triton's clients know. */
function findModel(engine: InferenceEngine, { name, version }: ModelName): Model {
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

/** The model, and perhaps the version, that a path names. */
interface ModelName {
  readonly name: string
  readonly version: string | undefined
}

/** What a request asks for. */
type Route =
  | { readonly to: 'live' | 'ready' | 'server' | 'statistics' | 'index' }
  | {
      readonly to: 'model' | 'model-ready' | 'model-config' | 'model-statistics' | 'infer'
      readonly model: ModelName
    }
  | { readonly to: 'load' | 'unload'; readonly name: string }

const fixed: Readonly<Record<string, Route['to']>> = {
  '/v2': 'server', '/v2/health/live': 'live', '/v2/health/ready': 'ready', '/v2/models/stats': 'statistics', '/v2/repository/index': 'index',
} // prettier-ignore
const calls: Readonly<Record<string, Route['to']>> = {
  '': 'model',
  '/ready': 'model-ready',
  '/config': 'model-config',
  '/stats': 'model-statistics',
  '/infer': 'infer',
}
const ofModel = /^\/v2\/models\/([^/]+)(?:\/versions\/([^/]+))?(\/ready|\/config|\/stats|\/infer)?$/
const ofRepository = /^\/v2\/repository\/models\/([^/]+)\/(load|unload)$/

/** Calls of Triton that are not supported, and what to use instead. */
const refused: readonly (readonly [path: RegExp, what: string, instead: string])[] = [
  [
    /^\/v2\/systemsharedmemory(\/|$)/,
    'System shared memory',
    'Send tensors as binary data; within one machine zerohop/processes shares memory',
  ],
  [/^\/v2\/cudasharedmemory(\/|$)/, 'CUDA shared memory', 'Send tensors as binary data'],
  [
    /^\/v2\/(models\/[^/]+\/)?trace\/setting$/,
    'The trace settings',
    'Trace with engine.trace in the process that serves',
  ],
  [/^\/v2\/logging$/, 'The log settings', 'Listen to the events of the engine in the process that serves'],
  [/^\/v2\/models\/[^/]+(\/versions\/[^/]+)?\/generate(_stream)?$/, 'The generate extension', 'Call infer'],
]

const posted: ReadonlySet<Route['to']> = new Set<Route['to']>(['infer', 'index', 'load', 'unload'])

/**
 * The route of a request; `null` if it does not belong to the protocol.
 *
 * @throws HttpFailure 404, 405, 501 for unsupported calls of Triton, 400 for a malformed path.
 */
function routeOf(method: string | undefined, url: string | undefined): Route | null {
  const path = (url ?? '').split(/[?#]/, 1)[0]!.replace(/(?<=.)\/$/, '')
  if (path !== '/v2' && !path.startsWith('/v2/')) return null
  const route = find(path)
  if (route !== null) {
    const allowed = posted.has(route.to) ? ['POST'] : ['GET', 'HEAD']
    if (!allowed.includes(method ?? ''))
      throw new HttpFailure(405, `${path.slice(0, 200)}: expected ${allowed[0]}, received ${method}.`, {
        allow: allowed.join(', '),
      })
    return route
  }
  const [, what, instead] = refused.find(([pattern]) => pattern.test(path)) ?? []
  if (what !== undefined)
    throw new HttpFailure(501, `${what} is not supported (${path.slice(0, 200)}). ${instead}.`)
  throw new HttpFailure(404, `Not Found: the protocol has no ${path.slice(0, 200)}`)
}

function find(path: string): Route | null {
  if (Object.hasOwn(fixed, path)) return { to: fixed[path] } as Route
  const [, name, version, call = ''] = ofModel.exec(path) ?? []
  if (name !== undefined)
    return {
      to: calls[call],
      model: { name: decoded(name), version: version === undefined ? undefined : decoded(version) },
    } as Route
  const [, controlled, action] = ofRepository.exec(path) ?? []
  return controlled === undefined ? null : ({ to: action, name: decoded(controlled) } as Route)
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new HttpFailure(400, `The path: expected percent-encoded UTF-8, received '${part.slice(0, 80)}'.`)
  }
}
