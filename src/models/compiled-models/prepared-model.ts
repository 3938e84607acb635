import type { ModelOrigin } from '../../options/engine-options.ts'
import type { OpenOptions } from '../../options/session-options.ts'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type { ResolvedConfig } from '../../options/model-config.ts'

/** Notes on a session, by subject; see `WorkerSession.note`. */
export type SessionNotes = Readonly<Record<string, string>>

/** What a session is opened from. */
interface Opening {
  /** A path, or bytes. */
  readonly model: string | SharedArrayBuffer
  readonly options: OpenOptions
  /** Facts found about the model earlier. */
  readonly notes: SessionNotes
  /** The original model, if its compiled form cannot be opened. */
  readonly original: OriginalModel | undefined
}

/** See {@link Opening.original}. */
interface OriginalModel {
  readonly model: string | SharedArrayBuffer
  readonly options: OpenOptions
  /** Whether the compiled form is still the one that was checked; called once it is open. */
  isStillMade(): boolean
  /** Called when the original had to be opened. */
  used(reason: string): void
}

/** A model that is ready for its sessions to be opened. */
export interface PreparedModel {
  readonly origin: ModelOrigin
  /** @param options for a session of the original model. */
  opening(model: string | SharedArrayBuffer, options: OpenOptions): Opening
  /** Called with facts found while it was loaded. */
  learnt(notes: SessionNotes): void
  /** Its model serves: its entry in the cache may be sealed. */
  serves(): void
  /** Its model is closed. Sealing stops, and the next load does it; resolves when it has stopped. */
  close(): Promise<void>
}

/** A model that is opened without compilation. */
export function asItIs(reason: string): PreparedModel {
  return {
    origin: { compiled: false, reason },
    opening: (model, options) => ({ model, options, notes: {}, original: undefined }),
    learnt: () => {},
    serves: () => {},
    close: () => Promise.resolve(),
  }
}

/** The graph, optimised by ONNX Runtime for this machine. */
export const graphFile = 'model.onnx'
/** Its weights, packed for its kernels. The file is mapped into memory, which all processes share. */
const weightsFile = 'model.weights'

/**
 * Each external tensor is located, opened and mapped by itself, which takes some tenths of a millisecond; smaller
 * tensors stay in the graph.
 */
const leastBytesOutside = 16_384

/** Options with which a session writes its compiled form into a folder when it opens. */
export function compilingInto(folder: string, options: OpenOptions): OpenOptions {
  const extra = {
    ...(options.extra as Record<string, string> | undefined),
    'session.optimized_model_external_initializers_file_name': weightsFile,
    'session.optimized_model_external_initializers_min_size_in_bytes': String(leastBytesOutside),
    'session.save_external_prepacked_constant_initializers': '1',
  }
  return { ...options, optimizedModelFilePath: join(folder, graphFile), extra }
}

/** Options to open a session from a compiled form, without further optimisation. */
export function ofCompiled(options: OpenOptions): OpenOptions {
  return { ...options, graphOptimizationLevel: 'disabled' }
}

/** Entries with which ONNX Runtime reads a model or a part of it from elsewhere, or writes one. */
const ownFiles =
  /^(?:ep\.context|session\.(?:load_model_format|save_model_format|optimized_model|save_external|model_external|use_ort_model_bytes))/

/** Why a model has no compiled form; `null` if it may have one. */
export function whyNotCompiled(
  { path, sessionOptions, runEntries }: ResolvedConfig,
  onCpuOnly: boolean,
): string | null {
  const { externalData, optimizedModelFilePath, enableProfiling, extra } = sessionOptions
  if (!onCpuOnly) return 'it does not run on the CPU alone'
  if (/\.ort$/i.test(path)) return 'it is a file in the format .ort, whose graph is as it is to be'
  if (externalData !== undefined) return 'it has external data in memory'
  if (optimizedModelFilePath !== undefined)
    return 'its optimised graph is written elsewhere (optimizedModelFilePath)'
  if (enableProfiling === true) return 'it is profiled'
  const entry = [...Object.keys(extra), ...Object.keys(runEntries)].find((name) => ownFiles.test(name))
  return entry === undefined ? null : `it has files of its own (${entry})`
}

/** Options that change how a graph runs, but not the graph. */
const notOfGraph = new Set([
  'intraOpNumThreads', 'interOpNumThreads', 'executionMode', 'enableCpuMemArena', 'enableMemPattern', 'enableProfiling', 'profileFilePrefix', 'logId',
  'logSeverityLevel', 'logVerbosityLevel', 'optimizedModelFilePath', 'externalData', 'extra',
]) // prettier-ignore
const entryNotOfGraph = /^session\.(?:intra_op|inter_op)\.|^session\.force_spinning_stop$/

/** The part of a configuration that affects the compiled graph, by name and in a fixed order. */
export function graphOptionsOf({ sessionOptions }: ResolvedConfig): Record<string, string> {
  const inOrder = (of: object, isLeftOut: (name: string) => boolean) =>
    Object.entries(of)
      .filter(([name]) => !isLeftOut(name))
      .sort(([a], [b]) => (a < b ? -1 : 1))
  const textOf = (value: unknown) =>
    inspect(value, { depth: null, maxArrayLength: null, maxStringLength: null })
  const options = inOrder(sessionOptions, (name) => notOfGraph.has(name)).map(([name, value]) => [
    name,
    textOf(typeof value === 'object' && value !== null ? inOrder(value as object, () => false) : value),
  ])
  const extra = inOrder(sessionOptions.extra, (name) => entryNotOfGraph.test(name)).map(([name, value]) => [
    `extra.${name}`,
    textOf(value),
  ])
  return Object.fromEntries([...options, ...extra]) as Record<string, string>
}
