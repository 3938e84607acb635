import type { IncomingMessage, ServerResponse } from 'node:http'
import { cut, InferenceError, invalidArgument } from '../../errors.ts'
import type { InferenceEngine } from '../../engine.ts'
import { configOf } from '../../engine/engine-resources.ts'
import type { Model } from '../../model.ts'
import { Exchange, HeldBytes } from './exchange.ts'
import { failureOf, HttpFailure } from './http-failure.ts'
import { infer } from './infer.ts'
import { checkKserveOptions, type KserveOptions, type ResolvedKserveOptions } from './kserve-options.ts'
import { modelConfigJson, modelMetadata, serverMetadata, statisticsJson } from './model-descriptions.ts'
import { emptyReply, jsonReply, type Reply } from './reply.ts'
import { controlModel, repositoryIndex } from './repository.ts'
import { routeOf, type ModelName, type Route } from './routes.ts'

export type { KserveOptions } from './kserve-options.ts'

/**
 * Answers a request of the KServe protocol, and resolves with `true` when that is done. Any other it leaves as it is: it calls `next` and
 * resolves with `false`. Where there is no `next` it answers that with 404. It never rejects.
 */
export type KserveHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  next?: () => void,
) => Promise<boolean>

/**
 * Serves the models of an engine by the KServe protocol, version 2, as Triton speaks it over HTTP: for clients that are written for
 * Triton. What it gives is to be mounted in a server of `node:http` or of a framework, before anything that reads bodies.
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
    route ??= new HttpFailure(404, 'Not Found: what is served is the KServe protocol, /v2 and below.')
    const exchange = new Exchange(request, response, settings, held)
    try {
      if (route instanceof HttpFailure) throw route
      if (route.to !== 'load' && route.to !== 'unload') exchange.limit() // which may take as long as they do
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

/** @throws HttpFailure 404, in the words by which clients of Triton know it. */
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
