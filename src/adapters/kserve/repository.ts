import { isByForeignName, isOfAnotherSite } from '../http/browser-requests.ts'
import type { InferenceEngine } from '../../engine.ts'
import { repositoriesOf } from '../../engine/engine-resources.ts'
import { InferenceError } from '../../errors.ts'
import type { ModelState } from '../../engine/loaded.ts'
import type { Exchange } from './exchange.ts'
import { emptyReply, failureOf, HttpFailure, jsonReply, type Reply } from './reply.ts'
import { fieldsPieces, flagIn, parametersIn, textIn, type Fields } from './json-fields.ts'

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
export async function repositoryIndex(exchange: Exchange, engine: InferenceEngine): Promise<Reply> {
  const readyOnly = flagIn(await readFields(exchange), 'ready', '') ?? false
  const all = engine.models().flatMap(({ name, versions }) =>
    versions.map(({ version, state, failure }) => ({
      name,
      version: String(version),
      state: states[state],
      reason: failure ?? '',
    })),
  )
  if (readyOnly) return jsonReply(all.filter(({ state }) => state === 'READY'))
  const left = (await (await repositoriesOf(engine)).names()).filter(
    (name) => !all.some((each) => each.name === name),
  )
  return jsonReply([...all, ...left.map((name) => ({ name, state: 'UNAVAILABLE', reason: 'unloaded' }))])
}

/** Loads a model as its folder is now, or unloads one. This goes on if the client leaves. */
export async function controlModel(
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
  const parameters = parametersIn(await readFields(exchange), '')
  try {
    if (action === 'load') await load(engine, name, parameters)
    else await unload(engine, name, parameters)
  } catch (error) {
    if (!(error instanceof InferenceError || error instanceof HttpFailure)) throw error
    const { status, message, headers } = failureOf(error)
    throw new HttpFailure(status, `failed to ${action} '${name}': ${message}`, headers)
  }
  return emptyReply
}

async function load(engine: InferenceEngine, name: string, parameters: Fields): Promise<void> {
  const config = textIn(parameters, 'config', 'parameters.', mostConfigCharacters)
  const other = Object.keys(parameters).find((each) => each !== 'config')
  if (other !== undefined)
    throw new HttpFailure(
      501,
      `parameters.${other.slice(0, 80)}: the files of a model are in its folder: change them there, and load it again`,
    )
  if (config === undefined) await engine.load(name)
  else await (await repositoriesOf(engine)).loadNamed(name, {}, config)
}

async function unload(engine: InferenceEngine, name: string, parameters: Fields): Promise<void> {
  if (flagIn(parameters, 'unload_dependents', 'parameters.') === true)
    throw new HttpFailure(
      501,
      'parameters.unload_dependents: unload each of the models by its name, pipelines first',
    )
  await engine.unload(name)
}

/** The body of a repository call, which may be empty. */
async function readFields(exchange: Exchange): Promise<Fields> {
  const body = await exchange.body(0, Math.min(exchange.options.maxJsonBytes, exchange.options.maxBodyBytes))
  return body.byteLength === 0 ? {} : exchange.work(fieldsPieces(body, exchange.options), body.byteLength)
}
