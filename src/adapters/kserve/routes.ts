import { HttpFailure } from './http-failure.ts'

/** A model that a path names, or a version of it. */
export interface ModelName {
  readonly name: string
  readonly version: string | undefined
}

/** What is asked for. */
export type Route =
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

/** Calls of Triton's that are not served, and what to do instead. */
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
 * What a request is for; `null` for one that is none of the protocol's.
 *
 * @throws HttpFailure 404, 405, 501 for what is Triton's and not served, 400 for a path that cannot be read.
 */
export function routeOf(method: string | undefined, url: string | undefined): Route | null {
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
    throw new HttpFailure(501, `${what} is not served (${path.slice(0, 200)}). ${instead}.`)
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
