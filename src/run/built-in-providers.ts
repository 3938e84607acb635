import { trialLimitMs, tryInProcess } from './executors/native/trial-process.ts'
import type { NativeOrt } from './executors/native/native-ort.ts'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { requireFromPackage } from '../base/own-package.ts'

/** What is known of an execution provider that is built into ONNX Runtime. */
export interface BuiltIn {
  readonly name: string
  /** `null` where only trying it, or opening a model on it, shows it. */
  readonly available: boolean | null
  /** Why, or why not. */
  readonly reason: string
}

const program = 'run/worker-thread/provider-trial-child.js'

/** Opens and runs a model of one operator on a provider, in a separate process; never throws. */
export async function tryBuiltIn(name: string, limitMs = trialLimitMs): Promise<BuiltIn> {
  const result = await tryInProcess<{ names: readonly string[] }>(program, [name], limitMs, false)
  if ('reason' in result) return { name, available: false, reason: plain(result.reason) }
  return { name, available: true, reason: 'it ran a model in a separate process' }
}

/** What an engine knows of the execution providers that are built into ONNX Runtime, by lower-case names. */
export class BuiltInProviders {
  /** Of all that there are; `null` until ONNX Runtime has listed them. */
  #names: readonly string[] | null = null
  readonly #asked = new Set<string>()
  /** What trying them, or opening models on them, has shown. */
  readonly #found = new Map<string, BuiltIn>()
  /** Those under way. */
  readonly #trials = new Map<string, Promise<BuiltIn>>()

  /** All that there are, or else those that models have asked for. */
  get all(): BuiltIn[] {
    return [...(this.#names ?? this.#asked)].map((name) => this.about(name))
  }

  /** A model has asked for them. */
  asked(names: readonly string[]): void {
    for (const name of names) this.#asked.add(name)
  }

  /** Takes the names of those that there are from ONNX Runtime as the addon has opened it. */
  readNames({ binding }: NativeOrt): void {
    this.#names ??= binding?.builtInProviders().map(providerName) ?? null
  }

  /** What is known of one. */
  about(name: string): BuiltIn {
    if (name === 'cpu') return { name, available: true, reason: 'always there' }
    const absence = this.#found.has(name) ? null : this.#absence(name)
    if (absence !== null) return { name, available: false, reason: absence }
    return (
      this.#found.get(name) ?? {
        name,
        available: null,
        reason: 'whether it finds a device shows when it is tried, or a model is opened on it',
      }
    )
  }

  /** A model has been opened on it. */
  opened(name: string): void {
    if (!this.#found.has(name))
      this.#found.set(name, { name, available: true, reason: 'a model was opened on it' })
  }

  /** Tries one of which nothing is known; once, however many ask. */
  async try(name: string): Promise<BuiltIn> {
    if (this.about(name).available !== null) return this.about(name)
    let trial = this.#trials.get(name)
    if (trial === undefined) this.#trials.set(name, (trial = tryBuiltIn(name)))
    this.#found.set(name, await trial)
    this.#trials.delete(name)
    return this.about(name)
  }

  /** Tries them all, one after the other: each takes the cores meanwhile. Those that could not be used are tried again. None once `ending` fires. */
  async tryAll(ending?: AbortSignal): Promise<void> {
    this.#names ??= await listNames()
    for (const { name, available } of this.all) {
      if (ending?.aborted) return
      if (available === false) this.#found.delete(name)
      await this.try(name)
    }
  }

  /** What is against it without trying it. */
  #absence(name: string): string | null {
    if (this.#names !== null && !this.#names.includes(name)) {
      return `it is neither built into ONNX Runtime here, which has ${this.#names.join(', ')}, nor a plugin among the engine's options.providers`
    }
    const isApart = name === 'cuda' || name === 'tensorrt'
    return isApart && !cudaProviderInstalled()
      ? 'its library, which onnxruntime-node downloads apart, is not installed'
      : null
  }
}

/** Of a check of its own that fails, ONNX Runtime also says the place and the condition. */
function plain(said: string): string {
  return said
    .trim()
    .replace(/^\S+:\d+ .* was false\. /s, '')
    .replace(/\.$/, '')
}

/** As `executionProviders` have it. */
function providerName(ortName: string): string {
  return ortName.replace(/ExecutionProvider$/, '').toLowerCase()
}

async function listNames(): Promise<readonly string[] | null> {
  const result = await tryInProcess<{ names: readonly string[] }>(program, [], trialLimitMs, false)
  return 'reason' in result ? null : result.names
}

/** Whether onnxruntime-node's CUDA provider library, a download of its own, lies beside its binding. */
export function cudaProviderInstalled(): boolean {
  try {
    const root = dirname(requireFromPackage.resolve('onnxruntime-node/package.json'))
    const library =
      process.platform === 'win32' ? 'onnxruntime_providers_cuda.dll' : 'libonnxruntime_providers_cuda.so'
    return existsSync(join(root, 'bin', 'napi-v6', process.platform, process.arch, library))
  } catch {
    return false
  }
}
