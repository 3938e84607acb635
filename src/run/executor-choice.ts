import { type Clock, freeTurns } from '../base/clock.ts'
import type { ResolvedEngineOptions, StagingOptions } from '../options/engine-options.ts'
import { freeCoresMs } from '../base/available-resources.ts'
import { InferenceError } from '../errors.ts'
import { BindingExecutor, CompletionLoop } from './executors/binding/binding-executor.ts'
import type { ExecutorEvents } from './executors/executor.ts'
import { NativeExecutor } from './executors/native/native-executor.ts'
import { NativeMemory, SharedMemory } from '../native/staging-memory.ts'
import { installedVersion, openNativeOrt } from './executors/native/native-ort.ts'
import type { ThreadExecutor, WorkerReady } from './executors/protocol.ts'
import type { StagingMemory } from '../native/staging-pool.ts'
import { InlineBudget } from './thread-time.ts'
import { warn } from '../base/warnings.ts'
import { setting } from '../base/settings.ts'

/** What users have to say of executors. */
export type ExecutorOptions = Pick<ResolvedEngineOptions, 'executor' | 'staging' | 'inline' | 'workers'>

/** How the threads of an engine call ONNX Runtime. */
export interface Executors {
  readonly kind: 'native' | 'binding'
  /** Why this kind. */
  readonly reason: string
  /** As the addon has found it; `null` with the binding, whose threads say it. */
  readonly ortVersion: string | null
  /** What the application's thread may run itself; `null` for nothing. */
  readonly inline: InlineBudget | null
  make(events: ExecutorEvents): ThreadExecutor | NativeExecutor
  /**
   * Where slots are to lie.
   *
   * @param ready what a thread has said of itself.
   * @throws InferenceError `ERR_NATIVE_LOAD` when a kind is asked for that cannot be had.
   */
  memory(ready: WorkerReady): StagingMemory
}

/**
 * `executor: 'auto'` is native where that can be had, unless the environment variable `ZEROHOP_EXECUTOR` says `binding`.
 *
 * @throws InferenceError `ERR_NATIVE_LOAD` when the native executor is asked for and cannot be had.
 */
export function chooseExecutors(
  { executor: asked, staging, inline, workers }: ExecutorOptions,
  clock: Clock,
): Executors {
  if (asked === 'binding') return bindingExecutors("requested by executor: 'binding'", staging)
  if (asked === 'auto' && setting('ZEROHOP_EXECUTOR') === 'binding')
    return bindingExecutors('ZEROHOP_EXECUTOR says so', staging)
  const reason = asked === 'native' ? "requested by executor: 'native'" : 'the default'
  const native = nativeExecutors(reason, { staging, inline, workers }, clock)
  if (typeof native !== 'string') return native
  if (asked === 'auto') {
    const meant = setting('ZEROHOP_NATIVE') === 'off' || (staging.kind ?? 'auto') !== 'auto'
    const runsAtAll = installedVersion() !== null // or a load says what to install
    if (!meant && runsAtAll) warnOfFallback(native)
    return bindingExecutors(native, staging)
  }
  throw new InferenceError('ERR_NATIVE_LOAD', `executor 'native' is not available: ${native}`)
}

/** Whether {@link chooseExecutors} tries the native executor. */
export function triesNative({ executor: asked, staging: { kind } }: ExecutorOptions): boolean {
  const isBinding = asked === 'binding' || (asked === 'auto' && setting('ZEROHOP_EXECUTOR') === 'binding')
  return !isBinding && kind !== 'shared' && kind !== 'copied'
}

let warned = false

/** Once for the process: what is slower, or missing, with the binding would be a riddle. */
function warnOfFallback(reason: string): void {
  if (warned) return
  warned = true
  const message =
    `The native executor is not available, so models run through onnxruntime-node's binding: slower, with runs that cannot be stopped, and without ` +
    `sequence types (seq(...)), maps, optional values and elements of fewer bits than JavaScript's arrays have. Set executor: 'binding' if that is intended. Reason: ${reason}`
  warn('ZEROHOP_EXECUTOR_FALLBACK', message)
}

/** The native executors, or why there are none. */
function nativeExecutors(
  reason: string,
  { staging, inline, workers }: Omit<ExecutorOptions, 'executor'>,
  clock: Clock,
): Executors | string {
  const { kind } = staging
  if (kind === 'shared' || kind === 'copied') return `it cannot read staging.kind '${kind}'; omit one of them`
  const ort = openNativeOrt()
  if (ort.binding === null) return ort.reason
  return {
    kind: 'native',
    reason,
    ortVersion: ort.version,
    inline: inline && new InlineBudget(clock, inline, ort.binding.threadCpuMs, freeTurns(), freeCoresMs),
    make: (events) => new NativeExecutor(ort, events, workers.niceIncrement),
    memory: () => new NativeMemory(ort.binding, staging),
  }
}

function bindingExecutors(reason: string, staging: StagingOptions): Executors {
  const completions = new CompletionLoop()
  return {
    kind: 'binding',
    reason,
    ortVersion: null,
    inline: null,
    make: (events) => new BindingExecutor(completions, events),
    memory: ({ acceptsSharedMemory = false }) =>
      new SharedMemory({ staging, accepted: acceptsSharedMemory, reason }),
  }
}
