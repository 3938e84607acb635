import type { InferenceSession } from 'onnxruntime-common'
import { isSince } from '../base/platform.ts'
import type { InstanceKind } from './instance-group.ts'
import type { FunctionSource } from './model-source.ts'
import type { ResolvedConfig } from './resolve-model-config.ts'
import { inputsOfSequence } from './sequence-config.ts'
import type { SessionConfigEntries } from './session-config-entries.ts'

/** Options that a session is opened with; ONNX Runtime's own, and what only the native executor carries. */
export interface OpenOptions extends InferenceSession.SessionOptions {
  readonly freeDimensionOverridesByDenotation?: Readonly<Record<string, number>>
  /** Initializers that requests may override, where the graph has them as inputs. */
  readonly overridden?: readonly string[]
  /** Config entries of each run. */
  readonly runEntries?: SessionConfigEntries
  /** What opens a function; such a session has no other options. */
  readonly function?: FunctionSource
}

/** How a session uses an entry of `executionProviders`: as it is, as a plugin, or, `null`, not at all. */
export type ProviderUse = (
  entry: InferenceSession.ExecutionProviderConfig,
) => InferenceSession.ExecutionProviderConfig | null

/** The name of an execution provider in a list. */
export function nameOf(provider: InferenceSession.ExecutionProviderConfig): string {
  return typeof provider === 'string' ? provider : provider.name
}

/** Whether ONNX Runtime is not to give any node to the CPU: then `cpu` is no provider to fall back to. */
export function forbidsCpu({ sessionOptions }: ResolvedConfig): boolean {
  return sessionOptions.extra['session.disable_cpu_ep_fallback'] === '1'
}

/** Where one instance runs. */
export interface Placement {
  readonly kind: InstanceKind
  /** CUDA device ordinal; 0 elsewhere. */
  readonly gpu: number
  /** Threads for one run. */
  readonly intraOpNumThreads: number
}

/** The CUDA device that an instance runs on, and its staging memory is page-locked for; `null` for none. */
export function cudaDevice({ kind, gpu }: Placement): number | null {
  return kind === 'cuda' ? gpu : null
}

/** What opens a session. */
export interface SessionRuntime {
  readonly ortVersion: string
  readonly useProvider: ProviderUse
}

const allowSpinning = 'session.intra_op.allow_spinning'

/**
 * How long ONNX Runtime's threads spin before they sleep. From one operator of a run to the next that is cheaper than to be woken, on 2 cores
 * SqueezeNet runs 1.25 times as often, 200 small products 1.6 times; for the millisecond that they would by themselves, they take cores on
 * which the application and other workers run.
 */
const spinUs = 20
/** Older ones know no bound. */
const boundedSpinning = [1, 26] as const

function spinEntries(extra: SessionConfigEntries, ortVersion: string): SessionConfigEntries {
  if (allowSpinning in extra) return {}
  return isSince(ortVersion, boundedSpinning)
    ? { [allowSpinning]: '1', 'session.intra_op.spin_duration_us': String(spinUs) }
    : { [allowSpinning]: '0' }
}

/** The options a session is created with: this library's defaults, overridden by the caller's. */
export function sessionOptions(
  config: ResolvedConfig,
  placement: Placement,
  { ortVersion, useProvider }: SessionRuntime,
): OpenOptions {
  const { extra, ...given } = config.sessionOptions
  return {
    intraOpNumThreads: placement.intraOpNumThreads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    // Errors come to the caller as exceptions; ONNX Runtime would print them as well.
    logSeverityLevel: 4,
    ...given,
    ...(config.memory.arena === undefined ? {} : { enableCpuMemArena: config.memory.arena }),
    executionProviders: (config.executionProviders ?? providers(placement)).flatMap((entry) =>
      nameOf(entry) === 'cpu' && forbidsCpu(config) ? [] : (useProvider(entry) ?? []),
    ),
    extra: { ...spinEntries(extra, ortVersion), ...extra },
    ...(Object.keys(config.runEntries).length > 0 && { runEntries: config.runEntries }),
    overridden: namedInputs(config),
  }
}

/** All inputs that a configuration names; of those with a value of their own these are the ones that requests have. */
export function namedInputs({
  optionalInputs,
  inputs = [],
  sequence,
}: Pick<ResolvedConfig, 'optionalInputs' | 'inputs' | 'sequence'>): string[] {
  return [...new Set([...optionalInputs, ...inputs.map(({ name }) => name), ...inputsOfSequence(sequence)])]
}

function providers({ kind, gpu }: Placement): InferenceSession.ExecutionProviderConfig[] {
  if (kind === 'cuda')
    return [{ name: 'cuda', deviceId: gpu } as InferenceSession.ExecutionProviderConfig, 'cpu']
  return kind === 'cpu' ? ['cpu'] : [kind, 'cpu']
}
