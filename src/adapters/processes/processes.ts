import { outsideContext } from '../../base/async-context.ts'
import type { InferenceEngine } from '../../engine.ts'
import type { EngineServer } from './engine-server.ts'
import type { ConnectOptions, ServeOptions } from './process-options.ts'
import { RemoteEngine } from './remote-engine.ts'

export type { EngineServer, ServerStatistics } from './engine-server.ts'
export type { ConnectOptions, ServeOptions, SpawnOptions } from './process-options.ts'
export type { RemoteEngine, RemoteModelStatus, ServerInfo } from './remote-engine.ts'
export type { RemoteModel } from './remote-engine.ts'

/**
 * Serves an engine to other processes of this user, and to threads of this process. They use {@link connect}.
 * On Linux with the addon, requests and answers lie in shared memory; elsewhere they go through the socket.
 * The server keeps the process alive until it is closed.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for invalid options, a folder that other users may enter, or a
 * path that another server uses.
 */
export async function serve(engine: InferenceEngine, options: ServeOptions): Promise<EngineServer> {
  return outsideContext(async () => {
    const { EngineServer } = await import('./engine-server.ts') // clients do not load the server's code
    return EngineServer.start(engine, options)
  })
}

/**
 * Connects to the engine that another process, or another thread of this process, serves at a path. Works in
 * worker threads as well.
 *
 * @throws InferenceError `ERR_DISCONNECTED` if none can be reached in time, or started; `ERR_INVALID_ARG`.
 */
export function connect(path: string, options: ConnectOptions = {}): Promise<RemoteEngine> {
  return RemoteEngine.connect(path, options)
}
