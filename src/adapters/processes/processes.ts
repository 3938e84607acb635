import { outsideContext } from '../../base/async-context.ts'
import type { InferenceEngine } from '../../engine.ts'
import type { EngineServer } from './engine-server.ts'
import type { ConnectOptions, ServeOptions } from './process-options.ts'
import { RemoteEngine } from './remote-engine.ts'

export type { EngineServer, ServerStatistics } from './engine-server.ts'
export type { ConnectOptions, ServeOptions, SpawnOptions } from './process-options.ts'
export type { RemoteEngine, RemoteModelStatus, ServerInfo } from './remote-engine.ts'
export type { RemoteModel } from './remote-model.ts'

/**
 * Serves an engine to other processes of this user, and to threads of this one, which have it by {@link connect}. Requests and answers
 * lie in memory that both sides share, on Linux with the addon; elsewhere the socket carries them. It holds the process until it is closed.
 *
 * @throws InferenceError `ERR_INVALID_ARG`: for options that are wrong, a folder that others may enter, a path at which another serves.
 */
export async function serve(engine: InferenceEngine, options: ServeOptions): Promise<EngineServer> {
  return outsideContext(async () => {
    const { EngineServer } = await import('./engine-server.ts') // clients do not take the memory of what it needs
    return EngineServer.start(engine, options)
  })
}

/**
 * Connects to the engine that another process, or another thread of this one, serves at a path. The same in a worker thread.
 *
 * @throws InferenceError `ERR_DISCONNECTED` when none can be reached in time, or be started; `ERR_INVALID_ARG`.
 */
export function connect(path: string, options: ConnectOptions = {}): Promise<RemoteEngine> {
  return RemoteEngine.connect(path, options)
}
