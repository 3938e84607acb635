import type { Clock } from '../base/clock.ts'
import type { CacheCapability, ResolvedEngineOptions, WorkerOptions } from '../options/engine-options.ts'
import { nameOf, type ModelRuntime, type Placement } from '../options/session-options.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import { ThreadEndedError } from './executors/executor.ts'
import { installedVersion, startNativeOrt } from './executors/native/native-ort.ts'
import { loadBinding } from '../native/addon.ts'
import type { CudaProbe } from '../native/native-binding.ts'
import type { StagingMemory, StagingStats } from '../native/staging-pool.ts'
import type { WorkerReady } from './executors/protocol.ts'
import type { WorkerEvent } from '../observe/engine-events.ts'
import { DevicePool } from './device-pool.ts'
import {
  allGpus,
  EngineProviders,
  providerCapabilities,
  type ProviderCapability,
} from './engine-providers.ts'
import { chooseExecutors, triesNative, type ExecutorOptions, type Executors } from './executor-choice.ts'
import { switchOffTelemetry, telemetryState, type TelemetryState } from './telemetry.ts'
import type { Worker } from './worker.ts'
import { startAll } from './worker-threads.ts'
import { invalidArgument } from '../errors.ts'
import { isSince } from '../base/platform.ts'
import { warn } from '../base/warnings.ts'

/** What an engine has found and uses. */
export interface Capabilities {
  /** The version of Node.js. */
  readonly node: string
  /** `null` until a model is loaded. */
  readonly onnxruntime: string | null
  /** Cores that the process may use (of a container its quota's), workers that the engine may have for them, and those that it has. */
  readonly cpu: { readonly cores: number; readonly maxWorkers: number; readonly workers: number }
  /** The native addon: its path, or why it is not in use. */
  readonly native: { readonly available: boolean; readonly path?: string; readonly reason?: string }
  /** How ONNX Runtime is called: by the addon, or through onnxruntime-node; and its version as the addon has found it. `kind` is `null` until a model was loaded. */
  readonly executor: {
    readonly kind: 'native' | 'binding' | null
    readonly reason: string
    readonly ortVersion: string | null
  }
  /** How tensors reach the workers; `kind` is `null` until a model was loaded. */
  readonly staging: { readonly kind: string | null; readonly reason: string }
  /** Execution providers, plugins and those that are built into ONNX Runtime, as far as something is known of them: after `probeProviders()` of all. */
  readonly providers: readonly ProviderCapability[]
  /** The CUDA driver. Asked for only here and when an instance of kind `auto` or `cuda` is placed. */
  readonly cuda: CudaProbe
  /** Where models are kept in compiled form, and which of the engine's were opened from there. */
  readonly cache: CacheCapability
  /** ONNX Runtime's telemetry: turned off by setting `ORT_DISABLE_TELEMETRY`, unless the user has set it. */
  readonly telemetry: TelemetryState
}

/** What the devices need of the engine's options. */
interface DeviceOptions extends ExecutorOptions {
  readonly providers: ResolvedEngineOptions['providers']
  readonly cores: number
  readonly cpuWorkers: number
  readonly workers: WorkerOptions
}

const noCuda = (reason: string): CudaProbe => ({ available: false, reason, driverVersion: 0, devices: [] })

const notYet = { kind: null, reason: 'no model has been loaded', ortVersion: null }

/** Where one instance is to run. */
interface Seat {
  readonly kind: Placement['kind']
  /** The number of its group. */
  readonly group: number
  readonly gpu: number
  readonly device: string
  readonly maxWorkers: number
}

/** GPU workers per device: one copies while the other computes. */
const workersPerGpu = 2

/** The pools of an engine, one per device. */
export class Devices {
  readonly #options: DeviceOptions
  readonly #clock: Clock
  readonly #changed: (event: WorkerEvent) => void
  readonly #pools = new Map<string, DevicePool>()
  #executors: Executors | null = null
  readonly providers: EngineProviders

  /** @param changed notified of what happens to workers. */
  constructor(options: DeviceOptions, clock: Clock, changed: (event: WorkerEvent) => void) {
    this.#changed = changed
    this.#options = options
    this.#clock = clock
    this.providers = new EngineProviders(options.providers)
  }

  /** Where slots are to lie, once the workers of a model have started; see {@link Executors.memory}. */
  stagingMemory(): StagingMemory {
    return this.#chosen().memory(this.#ready!)
  }

  /**
   * Chooses a worker for every instance of a model and calls `place` for each, at once: what is placed counts from then on,
   * so that loads at the same time choose different workers. Resolves when their threads have started.
   *
   * @param leaving the workers of sessions that are about to be released, which do not count.
   */
  async place(
    model: string,
    config: ResolvedConfig,
    place: (worker: Worker, placement: Placement, group: number) => void,
    leaving: readonly Worker[] = [],
  ): Promise<void> {
    const executors = this.#chosen()
    if (executors.kind === 'binding') refuseForBinding(model, config)
    await this.providers.prepare(model, config, executors)
    const seats = config.instanceGroup.flatMap(({ kind, count, cpuCount, gpus }, group): Seat[] => {
      const resolved = this.providers.placedOn(kind, config, gpus)
      const each = Array.from({ length: kind === 'auto' && resolved === 'cpu' ? cpuCount : count })
      if (resolved === 'cuda') {
        return (gpus === 'all' ? allGpus() : gpus).flatMap((gpu) =>
          each.map((): Seat => ({
            kind: 'cuda',
            group,
            gpu,
            device: `cuda:${gpu}`,
            maxWorkers: workersPerGpu,
          })),
        )
      }
      const alone = [resolved, ...(config.executionProviders ?? []).map(nameOf)].find((name) =>
        this.providers.needsOneThread(name),
      )
      const maxWorkers = alone === undefined ? this.#options.cpuWorkers : 1
      return each.map((): Seat => ({ kind: resolved, group, gpu: 0, device: alone ?? resolved, maxWorkers }))
    })
    const usesCores = (kind: string) => kind === 'cpu' || this.providers.plugins.has(kind) // a plugin leaves the CPU what it does not know
    const onCpu = Math.min(seats.filter(({ kind }) => usesCores(kind)).length, this.#options.cpuWorkers)
    const intraOpNumThreads = Math.max(1, Math.floor(this.#options.cores / Math.max(1, onCpu)))
    const taken = new Set<Worker>()
    const aside = executors.kind === 'native' // with the binding a session is opened where others are run
    for (const { kind, group, gpu, device, maxWorkers } of seats) {
      const worker = this.#pool(device, maxWorkers).leastOccupied(taken, aside ? leaving : [])
      taken.add(worker)
      const threads = usesCores(kind) ? intraOpNumThreads : 1
      const cores = kind === 'cpu' ? this.#options.cores : 0
      place(worker, { kind, gpu, intraOpNumThreads: threads, cores }, group)
    }
    await startAll(taken)
    warnOfConvolutionLeak(this.#ready!.onnxruntimeVersion)
  }

  /** Starts the thread that the first instance of a model will have, if that is one of the CPU and takes its time to start. */
  startThread(config: ResolvedConfig): void {
    if (triesNative(this.#options) || !this.providers.leaveCpuOnly(config)) return
    const worker = this.#pool('cpu', this.#options.cpuWorkers).leastOccupied(new Set())
    worker.start().catch(() => {}) // place() awaits it, too
  }

  /**
   * As {@link place}, for further instances beside one that has been placed, on the same device.
   *
   * @param apartFrom workers that are taken only when there is no other.
   * @param leaving the workers of sessions that are released once these serve.
   */
  async placeMore(
    beside: Worker,
    count: number,
    apartFrom: ReadonlySet<Worker>,
    place: (worker: Worker) => void,
    leaving: readonly Worker[] = [],
  ): Promise<void> {
    const pool = [...this.#pools.values()].find((each) => each.made(beside))
    if (pool === undefined) throw new ThreadEndedError() // the engine is closed
    const taken = new Set<Worker>()
    for (let more = 0; more < count; more++) {
      const worker = pool.leastOccupied(new Set([...apartFrom, ...taken]), leaving)
      taken.add(worker)
      place(worker)
    }
    await startAll(taken)
  }

  /** What will open the sessions of a model that is being placed. */
  runtimeFor(config: ResolvedConfig): ModelRuntime {
    return {
      executor: this.#chosen().kind,
      ortVersion: this.ortVersion,
      onCpuOnly: this.providers.leaveCpuOnly(config),
    }
  }

  /** As {@link runtimeFor}, as far as it can be told before ONNX Runtime is loaded, which begins here. */
  expectedRuntime(config: ResolvedConfig): ModelRuntime {
    if (this.#executors !== null || !triesNative(this.#options)) return this.runtimeFor(config)
    switchOffTelemetry(this.#options.workers.env)
    startNativeOrt()
    const ortVersion = installedVersion() ?? 'unknown'
    return { executor: 'native', ortVersion, onCpuOnly: this.providers.leaveCpuOnly(config) }
  }

  /**
   * As {@link runtimeFor}, for a model that is not to be placed.
   *
   * @throws InferenceError as {@link EngineProviders.prepare}.
   */
  async runtimeWithoutPlace(model: string, config: ResolvedConfig): Promise<ModelRuntime> {
    await this.providers.prepare(model, config, this.#chosen())
    return this.runtimeFor(config)
  }

  /** The version of ONNX Runtime that opens sessions. */
  get ortVersion(): string {
    return this.#chosen().ortVersion ?? installedVersion() ?? 'unknown'
  }

  #pool(device: string, maxWorkers: number): DevicePool {
    let pool = this.#pools.get(device)
    if (pool === undefined) {
      pool = new DevicePool({
        device,
        maxWorkers,
        workers: this.#options.workers,
        executors: this.#chosen(),
        clock: this.#clock,
        changed: this.#changed,
      })
      this.#pools.set(device, pool)
    }
    return pool
  }

  /** What is known of the runtime: at once with the native executor, else once a worker has started. */
  get #ready(): WorkerReady | null {
    const version = this.#executors?.ortVersion
    if (version != null) return { onnxruntimeVersion: version }
    return [...this.#pools.values()].find((pool) => pool.ready !== null)?.ready ?? null
  }

  #chosen(): Executors {
    switchOffTelemetry(this.#options.workers.env) // the addon may load ONNX Runtime now
    return (this.#executors ??= chooseExecutors(this.#options, this.#clock))
  }

  get allWorkers(): Worker[] {
    return [...this.#pools.values()].flatMap(({ workers }) => workers)
  }

  /** Tries all execution providers, each in a separate process. */
  async probeProviders(): Promise<void> {
    await this.providers.tryAll(this.#chosen())
  }

  capabilities(staging: StagingStats | null, cache: CacheCapability): Capabilities {
    const { cores, cpuWorkers } = this.#options
    const loaded = loadBinding()
    return {
      node: process.versions.node,
      onnxruntime: this.#ready?.onnxruntimeVersion ?? null,
      cpu: { cores, maxWorkers: cpuWorkers, workers: this.#pools.get('cpu')?.workers.length ?? 0 },
      native:
        loaded.binding === null
          ? { available: false, reason: loaded.reason }
          : { available: true, path: loaded.path },
      executor:
        this.#executors === null
          ? notYet
          : {
              kind: this.#executors.kind,
              reason: this.#executors.reason,
              ortVersion: this.#executors.ortVersion,
            },
      providers: providerCapabilities(this.providers),
      staging:
        staging === null
          ? { kind: null, reason: notYet.reason }
          : { kind: staging.kind, reason: staging.reason },
      cuda: loaded.binding === null ? noCuda('the native addon is not loaded') : loaded.binding.cudaProbe(),
      cache,
      telemetry: telemetryState(this.#options.workers.env),
    }
  }

  async close(timeoutMs: number): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close(timeoutMs)))
    this.#pools.clear()
  }
}

/** Providers of which onnxruntime-node passes nothing on but `deviceId`. */
const deviceOnly = new Set(['cuda', 'tensorrt'])

/**
 * Refuses what onnxruntime-node would leave out without a word.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
function refuseForBinding(
  model: string,
  { sessionOptions, runEntries, executionProviders = [] }: ResolvedConfig,
): void {
  const refuse = (option: string, received: unknown): void => {
    const hint = "Take executor: 'native', which carries it"
    throw invalidArgument(option, "to be omitted with executor: 'binding', which ignores it", received, {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint,
    })
  }
  for (const option of ['freeDimensionOverrides', 'freeDimensionOverridesByDenotation'] as const) {
    if (sessionOptions[option] !== undefined) refuse(`sessionOptions.${option}`, sessionOptions[option])
  }
  if (Object.keys(runEntries).length > 0) refuse('runOptions.extra', runEntries)
  for (const [index, provider] of executionProviders.entries()) {
    if (typeof provider === 'string' || !deviceOnly.has(provider.name.toLowerCase())) continue
    for (const [option, value] of Object.entries(provider))
      if (!['name', 'deviceId', 'required'].includes(option))
        refuse(`executionProviders[${index}].${option}`, value)
  }
}

/** From this version of ONNX Runtime on convolutions on arm64 give back what they take. */
const mended = [1, 27] as const

let warned = false

/** Warns, once for the process, where ONNX Runtime is known to leak memory in convolutions: on arm64 before 1.27. */
export function warnOfConvolutionLeak(version: string, arch: string = process.arch): void {
  if (warned || arch !== 'arm64' || isSince(version, mended)) return
  warned = true
  const message = `ONNX Runtime ${version} leaks memory in convolutions on arm64: take onnxruntime-node 1.27 or newer for models that have any.`
  warn('ZEROHOP_ARM64_LEAK', message)
}
