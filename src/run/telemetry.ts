import { isMainThread } from 'node:worker_threads'

const variable = 'ORT_DISABLE_TELEMETRY'

/** Values that ONNX Runtime takes for yes. */
const yes = /^(1|true|yes|on)$/i

let setHere = false

/**
 * Switches ONNX Runtime's telemetry off, unless the user has a word on it in the environment or in `workers.env`. From
 * 1.29 on it writes `mat-debug-<pid>.log` to the temporary folder and a growing database to the user's cache folder,
 * and looks up a host of its maker's. It reads the environment of the process, of which worker threads have a copy: to
 * be called on the application's main thread, before ONNX Runtime is loaded.
 */
export function switchOffTelemetry(workersEnv: Record<string, string> | undefined): void {
  if (process.env[variable] !== undefined) return
  process.env[variable] = workersEnv?.[variable] ?? '1'
  setHere = true
}

/** Whether ONNX Runtime's telemetry is off, and who says so. */
export interface TelemetryState {
  /** Whether nothing is recorded, as far as the environment can tell. */
  readonly off: boolean
  readonly reason: string
}

/** What the environment says of telemetry, by `workers.env` before the first worker is started. */
export function telemetryState(workersEnv: Record<string, string> | undefined): TelemetryState {
  const own = process.env[variable]
  const asked = workersEnv?.[variable]
  const value = own ?? asked ?? '1'
  const off = yes.test(value)
  if (!isMainThread && (setHere || own === undefined)) {
    return {
      off: false,
      reason: `an engine in a worker thread cannot set ${variable} for the process: set it before the process starts`,
    }
  }
  if (own !== undefined && !setHere) return { off, reason: `the environment says ${variable}=${own}` }
  return {
    off,
    reason: asked === undefined ? `set by zerohop: ${variable}=1` : `workers.env says ${variable}=${value}`,
  }
}
