import type { Clock } from '../clock.ts'
import type { ResolvedConfig } from '../config/resolve-model-config.ts'
import type { Placement } from '../config/session-options.ts'
import { loadBinding, type CudaProbe } from '../memory/addon.ts'
import type { StagingStats } from '../memory/staging-pool.ts'
import { CompletionLoop } from '../executor/binding/completion-loop.ts'
import { cudaProviderInstalled } from './cuda-provider.ts'
import { Bell } from '../executor/binding/control-block.ts'
import { DevicePool } from './device-pool.ts'
import { type WorkerOptions } from '../config/engine-options.ts'
import type { WorkerEvent } from '../observability/engine-events.ts'
import type { Worker } from './worker.ts'

/** What an engine has found and uses. */
export interface Capabilities {
  readonly node: string
  /** `null` until a worker has started. */
  readonly onnxruntime: string | null
  readonly cpu: { readonly cores: number; readonly maxWorkers: number; readonly workers: number }
  /** The native addon: its path, or why it is not in use. */
  readonly native: { readonly available: boolean; readonly path?: string; readonly reason?: string }
  /** How tensors reach the workers; `kind` is `null` until a model was loaded. */
  readonly staging: { readonly kind: string | null; readonly reason: string }
  /** The CUDA driver. Asked for only here and when an instance of kind `auto` or `cuda` is placed. */
  readonly cuda: CudaProbe
}

/** What the devices need of the engine's options. */
export interface DeviceOptions {
  readonly cores: number
  readonly cpuWorkers: number
  readonly workers: WorkerOptions
}

const noCuda = (reason: string): CudaProbe => ({ available: false, reason, driverVersion: 0, devices: [] })

/** GPU workers per device: one copies while the other computes. */
const workersPerGpu = 2

/** The pools of an engine, one per device, and the bell they share. */
export class Devices {
  readonly #options: DeviceOptions
  readonly #clock: Clock
  readonly #bell = new Bell()
  readonly #pools = new Map<string, DevicePool>()
  readonly #loop: CompletionLoop
  readonly #changed: (event: WorkerEvent) => void

  /** @param changed told of what happens to workers. */
  constructor(options: DeviceOptions, clock: Clock, changed: (event: WorkerEvent) => void) {
    this.#changed = changed
    this.#options = options
    this.#clock = clock
    this.#loop = new CompletionLoop(this.#bell, () => this.#hosts())
  }

  /** Whether ONNX Runtime reads SharedArrayBuffers in the workers that have started. */
  get acceptsSharedMemory(): boolean {
    return [...this.#pools.values()].every((pool) => pool.ready?.acceptsSharedMemory ?? true)
  }

  /** Workers for every instance of a model. */
  async place(config: ResolvedConfig): Promise<{ worker: Worker; placement: Placement }[]> {
    const places: { worker: Worker; placement: Placement }[] = []
    for (const { kind, count, gpus } of config.instanceGroup) {
      const resolved = kind === 'auto' ? (config.executionProviders === undefined ? this.#auto() : 'cpu') : kind
      if (resolved === 'cuda') {
        for (const gpu of gpus) places.push(...(await this.#placeOn(`cuda:${gpu}`, workersPerGpu, count, 'cuda', gpu)))
      } else if (resolved === 'webgpu') {
        // Two threads in the WebGPU provider at once end the process.
        places.push(...(await this.#placeOn('webgpu', 1, count, 'webgpu', 0)))
      } else {
        places.push(...(await this.#placeOn('cpu', this.#options.cpuWorkers, count, 'cpu', 0)))
      }
    }
    return places
  }

  async #placeOn(device: string, maxWorkers: number, count: number, kind: Placement['kind'], gpu: number) {
    let pool = this.#pools.get(device)
    if (pool === undefined) {
      pool = new DevicePool(device, maxWorkers, this.#options.workers, this.#bell, this.#clock, () => this.#loop.listen(), this.#changed)
      this.#pools.set(device, pool)
    }
    const hosts = await pool.place(count)
    const workers = new Set(hosts).size
    const intraOpNumThreads = kind === 'cpu' ? Math.max(1, Math.floor(this.#options.cores / workers)) : 1
    return hosts.map((worker) => ({ worker, placement: { kind, gpu, intraOpNumThreads } }))
  }

  #auto(): 'cuda' | 'cpu' {
    const { binding } = loadBinding()
    return binding !== null && binding.cudaProbe().available && cudaProviderInstalled() ? 'cuda' : 'cpu'
  }

  *#hosts(): Iterable<Worker> {
    for (const { hosts } of this.#pools.values()) yield* hosts
  }

  capabilities(staging: StagingStats | null): Capabilities {
    const { cores, cpuWorkers } = this.#options
    const loaded = loadBinding()
    const ready = [...this.#pools.values()].find((pool) => pool.ready !== null)?.ready
    return {
      node: process.versions.node,
      onnxruntime: ready?.onnxruntimeVersion ?? null,
      cpu: { cores, maxWorkers: cpuWorkers, workers: this.#pools.get('cpu')?.hosts.length ?? 0 },
      native: loaded.binding === null ? { available: false, reason: loaded.reason } : { available: true, path: loaded.path },
      staging: staging === null ? { kind: null, reason: 'no model has been loaded' } : { kind: staging.kind, reason: staging.reason },
      cuda: loaded.binding === null ? noCuda('the native addon is not loaded') : loaded.binding.cudaProbe(),
    }
  }

  async close(timeoutMs: number): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close(timeoutMs)))
    this.#pools.clear()
  }
}
