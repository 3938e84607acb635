import type { InferenceSession } from 'onnxruntime-common'
import type { InstanceKind } from './instance-group.ts'
import type { FunctionSource } from './model-source.ts'
import type { ResolvedConfig } from './resolve-model-config.ts'
import type { SessionConfigEntries } from './session-config-entries.ts'

/** Options that a session is opened with; ONNX Runtime's own, and what only the native executor carries. */
export interface OpenOptions extends InferenceSession.SessionOptions {
  readonly freeDimensionOverridesByDenotation?: Readonly<Record<string, number>>
  /** Config entries of each run. */
  readonly runEntries?: SessionConfigEntries
  /** What opens a function; such a session has no other options. */
  readonly function?: FunctionSource
}

/** How a session uses an entry of `executionProviders`: as it is, as a plugin, or, `null`, not at all. */
export type ProviderUse = (entry: InferenceSession.ExecutionProviderConfig) => InferenceSession.ExecutionProviderConfig | null

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

/**
 * ONNX Runtime's threads would spin while they wait for work, on the cores where the application and other workers
 * run. Measured on 2 cores: no slower for ResNet-50 without, and 1.4 times the requests for a small MLP.
 */
const defaultEntries = { 'session.intra_op.allow_spinning': '0' }

/** The options a session is created with: this library's defaults, overridden by the caller's. */
export function sessionOptions(config: ResolvedConfig, placement: Placement, use: ProviderUse = (entry) => entry): OpenOptions {
  const { extra, ...given } = config.sessionOptions
  return {
    intraOpNumThreads: placement.intraOpNumThreads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    // Errors come to the caller as exceptions; ONNX Runtime would print them as well.
    logSeverityLevel: 4,
    ...given,
    ...(config.memory.arena === undefined ? {} : { enableCpuMemArena: config.memory.arena }),
    executionProviders: (config.executionProviders ?? providers(placement)).flatMap((entry) => (nameOf(entry) === 'cpu' && forbidsCpu(config) ? [] : (use(entry) ?? []))),
    extra: { ...defaultEntries, ...extra },
    ...(Object.keys(config.runEntries).length > 0 && { runEntries: config.runEntries }),
  }
}

function providers({ kind, gpu }: Placement): InferenceSession.ExecutionProviderConfig[] {
  if (kind === 'cuda') return [{ name: 'cuda', deviceId: gpu } as InferenceSession.ExecutionProviderConfig, 'cpu']
  return kind === 'cpu' ? ['cpu'] : [kind, 'cpu']
}
