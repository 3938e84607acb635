import { outsideContext } from '../../base/async-context.ts'
import type { InferenceEngine } from '../../engine.ts'
import type { EngineServer } from './engine-server.ts'
import type { ServeOptions } from './serve-options.ts'

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
