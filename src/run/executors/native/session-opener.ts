import type { NativeCompletionDetails, NativeRunLoop } from '../../../native/native-binding.ts'
import { type OpeningAhead, bytesId } from '../executor.ts'
import type { CompletionHub, LoopOwner } from './native-executor.ts'
import type { InferenceSession } from 'onnxruntime-common'
import type { OpenOptions } from '../../../options/session-options.ts'
import { PluginProvider } from '../../../options/engine-options.ts'
import { libraryCarrier, type RawValueMetadata, servable } from '../../../tensor/metadata.ts'

/** Threads of an isolate that open at once; more openings wait behind those. */
const mostThreads = 4
/** How long a thread may take to end an opening before it is detached, in milliseconds. */
const endLimitMs = 1000

/** What is being opened. */
interface Opening {
  resolve(): void
  reject(reason: Error): void
}

/**
 * A thread of the addon's that opens sessions, and runs nothing. It is started by the application's thread and waits for the
 * next opening as long as that lives: memory that it has set free is used again by the same thread alone.
 */
class SessionOpener implements LoopOwner {
  readonly niceIncrement: number
  readonly #hub: CompletionHub
  readonly #loop: NativeRunLoop
  /** In the order in which they are done: the first is under way. */
  readonly #openings = new Map<number, Opening>()
  #lastId = 0

  constructor(hub: CompletionHub, niceIncrement: number) {
    this.niceIncrement = niceIncrement
    this.#hub = hub
    this.#loop = hub.newLoop(this)
    try {
      this.#loop.start(niceIncrement)
    } catch (error) {
      this.loopEnded()
      throw error
    }
  }

  /** Openings that are not done. */
  get underWay(): number {
    return this.#openings.size
  }

  open(model: string | SharedArrayBuffer, settings: readonly SessionSetting[]): OpeningAhead {
    const id = ++this.#lastId // of the question, and of the session
    const isPath = typeof model === 'string'
    this.#loop.open(
      id,
      id,
      isPath ? model : new Uint8Array(model),
      isPath ? 0 : bytesId(model),
      settings,
      true,
    )
    this.#loop.enterPages(0, id) // behind the opening; its answer is not waited for
    const opened = new Promise<void>((resolve, reject) => this.#openings.set(id, { resolve, reject }))
    let held = true
    const release = (): void => {
      if (!held) return
      held = false
      if (this.#openings.has(id)) this.#cancel(id)
      this.#loop.close(0, id) // behind both
    }
    return { opened, release }
  }

  batchDone(): void {} // it is given none

  answered(id: number, _runMs: number, details: NativeCompletionDetails | null): void {
    const opening = this.#openings.get(id)
    this.#openings.delete(id)
    if (details?.error == null) opening?.resolve()
    else opening?.reject(new Error(details.error))
  }

  loopEnded(): void {
    this.#hub.dropLoop(this.#loop)
    this.#loop.dispose()
  }

  #cancel(id: number): void {
    this.#loop.cancelQuestion(id)
    const [underWay] = this.#openings.keys()
    if (id !== underWay) return this.#withdraw(id)
    const timer = setTimeout(() => this.#detach(id), endLimitMs).unref()
    const { resolve, reject } = this.#openings.get(id)!
    const ended = (): void => clearTimeout(timer)
    this.#openings.set(id, {
      resolve: () => (ended(), resolve()),
      reject: (reason) => (ended(), reject(reason)),
    })
  }

  /** One that waits behind another says nothing of the thread, which is not to be detached for it. */
  #withdraw(id: number): void {
    this.#openings.get(id)!.reject(new Error('Its opening was cancelled.'))
    this.#openings.delete(id)
  }

  /** The thread is detached, and ends when it comes back. What waits for it is opened by those who asked. */
  #detach(id: number): void {
    const left = this.#openings.get(id)
    if (left === undefined) return
    forget(this.#hub, this)
    if (this.#loop.stop()) this.loopEnded()
    this.#openings.delete(id)
    left.reject(new Error('Its opening did not end.'))
    for (const { resolve } of this.#openings.values()) resolve()
    this.#openings.clear()
  }
}

const openersOf = new WeakMap<CompletionHub, SessionOpener[]>()

/**
 * Opens a session on a thread where nothing is run; see {@link Executor.openAhead}. `null` when the system has no thread left.
 *
 * @param niceIncrement of that thread, and of those that ONNX Runtime starts for the session.
 */
export function openAhead(
  hub: CompletionHub,
  niceIncrement: number,
  model: string | SharedArrayBuffer,
  settings: readonly SessionSetting[],
): OpeningAhead | null {
  const all = openersOf.get(hub) ?? []
  openersOf.set(hub, all)
  const openers = all.filter((opener) => opener.niceIncrement === niceIncrement)
  const [least] = openers.toSorted((a, b) => a.underWay - b.underWay)
  if (least !== undefined && (least.underWay === 0 || openers.length === mostThreads))
    return least.open(model, settings)
  try {
    const added = new SessionOpener(hub, niceIncrement)
    all.push(added)
    return added.open(model, settings)
  } catch {
    return least?.open(model, settings) ?? null
  }
}

function forget(hub: CompletionHub, opener: SessionOpener): void {
  openersOf.set(
    hub,
    openersOf.get(hub)!.filter((other) => other !== opener),
  )
}

/** One setting of a session as the addon takes it. */
interface SessionSetting {
  readonly name: string
  readonly key?: string
  readonly value?: string
  /** Options of an execution provider. */
  readonly entries?: Readonly<Record<string, string>>
  /** Contents of a file. */
  readonly bytes?: Uint8Array
}

const optimizationLevels: Readonly<Record<string, number>> = {
  disabled: 0,
  basic: 1,
  extended: 2,
  layout: 3,
  all: 99,
}
const executionModes: Readonly<Record<string, number>> = { sequential: 0, parallel: 1 }

/** ONNX Runtime's names of the execution providers that onnxruntime-node knows by others. */
const providerNames: Readonly<Record<string, string>> = {
  cuda: 'CUDA', tensorrt: 'TensorRT', coreml: 'CoreML', dml: 'DML', qnn: 'QNN', webgpu: 'WebGPU', xnnpack: 'XNNPACK', openvino: 'OpenVINO',
} // prettier-ignore

/** Those of which one session must not be run by two threads at once. */
const oneRunAtOnce = new Set(['webgpu', 'dml', 'tensorrt', 'xnnpack'])

/** Session options as a list of settings, in the order in which they are made. */
export function sessionSettings(options: OpenOptions): SessionSetting[] {
  const settings: SessionSetting[] = []
  const add = (name: string, value: unknown): void => {
    if (value !== undefined) settings.push({ name, value: String(value) })
  }
  const flag = (value: boolean | undefined) => (value === undefined ? undefined : Number(value))
  add('intraOpNumThreads', options.intraOpNumThreads)
  add('secondThreads', options.secondThreads)
  add('interOpNumThreads', options.interOpNumThreads)
  add('executionMode', numbered('executionMode', executionModes, options.executionMode))
  add(
    'graphOptimizationLevel',
    numbered('graphOptimizationLevel', optimizationLevels, options.graphOptimizationLevel),
  )
  add('enableCpuMemArena', flag(options.enableCpuMemArena))
  add('enableMemPattern', flag(options.enableMemPattern))
  add('optimizedModelFilePath', options.optimizedModelFilePath)
  if (options.enableProfiling === true)
    add('profileFilePrefix', options.profileFilePrefix ?? 'onnxruntime_profile_')
  add('logId', options.logId)
  add('logSeverityLevel', options.logSeverityLevel)
  add('logVerbosityLevel', options.logVerbosityLevel)
  for (const [key, length] of Object.entries(options.freeDimensionOverrides ?? {})) {
    settings.push({ name: 'freeDimension', key, value: String(length) })
  }
  for (const [key, length] of Object.entries(options.freeDimensionOverridesByDenotation ?? {})) {
    settings.push({ name: 'freeDimensionByDenotation', key, value: String(length) })
  }
  for (const file of options.externalData ?? []) {
    const { path, data } = file as { path: string; data: Uint8Array } // they have been checked
    settings.push({ name: 'externalFile', key: path, value: String(bytesId(data.buffer)), bytes: data })
  }
  for (const [key, value] of Object.entries(options.runEntries ?? {}))
    settings.push({ name: 'runConfig', key, value })
  for (const [key, value] of Object.entries((options.extra ?? {}) as Record<string, string>))
    settings.push({ name: 'config', key, value })
  for (const provider of options.executionProviders ?? []) settings.push(...providerSetting(provider))
  return settings
}

/** Whether threads may run one session with these options at the same time. */
export function sharable({ executionProviders = [] }: InferenceSession.SessionOptions): boolean {
  return executionProviders.every((provider) =>
    provider instanceof PluginProvider ? provider.sharable : !oneRunAtOnce.has(nameOf(provider)),
  )
}

function providerSetting(provider: InferenceSession.ExecutionProviderConfig): SessionSetting[] {
  if (provider instanceof PluginProvider)
    return [{ name: 'plugin', key: provider.name, value: String(provider.device), entries: provider.entries }]
  const name = nameOf(provider)
  // It is always there, last.
  if (name === 'cpu')
    return typeof provider === 'object' && 'useArena' in provider
      ? [{ name: 'enableCpuMemArena', value: String(Number(provider.useArena)) }]
      : []
  const {
    name: _,
    deviceId,
    ...rest
  } = typeof provider === 'string' ? { name: provider } : (provider as { name: string; deviceId?: number })
  const given = Object.entries({ ...(deviceId === undefined ? {} : { device_id: deviceId }), ...rest })
  return [
    {
      name: 'provider',
      key: providerNames[name] ?? name,
      entries: Object.fromEntries(given.map(([key, value]) => [key, String(value)])),
    },
  ]
}

function nameOf(provider: InferenceSession.ExecutionProviderConfig): string {
  return (typeof provider === 'string' ? provider : provider.name).toLowerCase()
}

function numbered(
  option: string,
  numbers: Readonly<Record<string, number>>,
  value: string | undefined,
): number | undefined {
  if (value === undefined) return undefined
  const number = Object.hasOwn(numbers, value) ? numbers[value] : undefined
  if (number === undefined)
    throw new Error(`${option} is one of ${Object.keys(numbers).join(', ')}, not ${value}`)
  return number
}

/** Places of the outputs that are served, among all. */
export function servedPlaces(
  inputs: readonly RawValueMetadata[],
  outputs: readonly RawValueMetadata[],
): number[] {
  try {
    const served = new Set(servable('', { inputs, outputs }, libraryCarrier).outputs.map(({ name }) => name))
    return [...outputs.keys()].filter((place) => served.has(outputs[place]!.name))
  } catch {
    return [] // the engine finds the same and closes it
  }
}

/** Values of the inputs that are served, each at the place of its input. */
export function placed<T, U>(
  values: readonly T[],
  places: readonly number[] | null,
  missing: U,
): readonly (T | U)[] {
  if (places === null) return values
  const all: (T | U)[] = Array.from({ length: (places.at(-1) ?? -1) + 1 }, () => missing)
  for (const [index, value] of values.entries()) all[places[index]!] = value
  return all
}
