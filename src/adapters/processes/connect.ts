import type { ConnectOptions } from './connect-options.ts'
import { RemoteEngine } from './remote-engine.ts'

/**
 * Connects to the engine that another process, or another thread of this one, serves at a path. The same in a worker thread.
 *
 * @throws InferenceError `ERR_DISCONNECTED` when none can be reached in time, or be started; `ERR_INVALID_ARG`.
 */
export function connect(path: string, options: ConnectOptions = {}): Promise<RemoteEngine> {
  return RemoteEngine.connect(path, options)
}
