import type { ModelOrigin } from '../../options/engine-options.ts'
import type { OpenOptions } from '../../options/session-options.ts'
import { join } from 'node:path'
import type { ResolvedConfig } from '../../options/model-config.ts'

/** Notes on a session, by what they are about; see `WorkerSession.note`. */
export type SessionNotes = Readonly<Record<string, string>>

/** What a session is opened from. */
interface Opening {
  /** A path, or bytes. */
  readonly model: string | SharedArrayBuffer
  readonly options: OpenOptions
  /** What was found out of the model before. */
  readonly notes: SessionNotes
  /** The model as it is, for when its compiled form cannot be opened. */
  readonly original: OriginalModel | undefined
}

/** See {@link Opening.original}. */
interface OriginalModel {
  readonly model: string | SharedArrayBuffer
  readonly options: OpenOptions
  /** Whether what was made from it is still what was checked: asked once that is open. */
  isStillMade(): boolean
  /** Told when it had to be opened. */
  used(reason: string): void
}

/** A model that its sessions can be opened from. */
export interface PreparedModel {
  readonly origin: ModelOrigin
  /** @param options those that a session of the model as it is would have. */
  opening(model: string | SharedArrayBuffer, options: OpenOptions): Opening
  /** Told what was found out of it while it was loaded. */
  learnt(notes: SessionNotes): void
}

/** A model that is opened as it is. */
export function asItIs(reason: string): PreparedModel {
  return {
    origin: { compiled: false, reason },
    opening: (model, options) => ({ model, options, notes: {}, original: undefined }),
    learnt: () => {},
  }
}

/** The graph as ONNX Runtime has optimised it for this machine. */
export const graphFile = 'model.onnx'
/** Its weights, packed as its kernels want them: read by mapping the file into memory, which all processes then share. */
const weightsFile = 'model.weights'

/** Each tensor outside is looked for, opened and mapped by itself, which takes some tenths of a millisecond: smaller ones are better off in the graph. */
const leastBytesOutside = 16_384

/** Options with which a session writes its compiled form into a folder as it is opened. */
export function compilingInto(folder: string, options: OpenOptions): OpenOptions {
  const extra = {
    ...(options.extra as Record<string, string> | undefined),
    'session.optimized_model_external_initializers_file_name': weightsFile,
    'session.optimized_model_external_initializers_min_size_in_bytes': String(leastBytesOutside),
    'session.save_external_prepacked_constant_initializers': '1',
  }
  return { ...options, optimizedModelFilePath: join(folder, graphFile), extra }
}

/** Options with which a session is opened from a compiled form: nothing is left to be optimised. */
export function ofCompiled(options: OpenOptions): OpenOptions {
  return { ...options, graphOptimizationLevel: 'disabled' }
}

/** Entries by which ONNX Runtime would look elsewhere for a model or a part of it, or write one. */
const ownFiles =
  /^(?:ep\.context|session\.(?:load_model_format|save_model_format|optimized_model|save_external|model_external|use_ort_model_bytes))/

/** Why a model has no compiled form; `null` for one that may have. */
export function whyNotCompiled(
  { path, sessionOptions, runEntries }: ResolvedConfig,
  onCpuOnly: boolean,
): string | null {
  const { externalData, optimizedModelFilePath, enableProfiling, extra } = sessionOptions
  if (!onCpuOnly) return 'it does not run on the CPU alone'
  if (/\.ort$/i.test(path)) return 'it is a file in the format .ort, whose graph is as it is to be'
  if (externalData !== undefined) return 'it has external data in memory'
  if (optimizedModelFilePath !== undefined)
    return 'its optimised graph is to be written elsewhere (optimizedModelFilePath)'
  if (enableProfiling === true) return 'it is to be profiled'
  const entry = [...Object.keys(extra), ...Object.keys(runEntries)].find((name) => ownFiles.test(name))
  return entry === undefined ? null : `it has files of its own (${entry})`
}

/** Options that change how a graph runs, but not the graph. */
const notOfGraph = new Set([
  'intraOpNumThreads', 'interOpNumThreads', 'executionMode', 'enableCpuMemArena', 'enableMemPattern', 'enableProfiling', 'profileFilePrefix', 'logId',
  'logSeverityLevel', 'logVerbosityLevel', 'optimizedModelFilePath', 'externalData', 'extra',
]) // prettier-ignore
const entryNotOfGraph = /^session\.(?:intra_op|inter_op)\.|^session\.force_spinning_stop$/

/** What of a configuration has a part in what its graph is compiled to, in the same order whoever gives it. */
export function graphOptionsOf({ sessionOptions }: ResolvedConfig): unknown {
  const inOrder = (of: object, isLeftOut: (name: string) => boolean) =>
    Object.entries(of)
      .filter(([name]) => !isLeftOut(name))
      .sort(([a], [b]) => (a < b ? -1 : 1))
  const options = inOrder(sessionOptions, (name) => notOfGraph.has(name)).map(
    ([name, value]): [string, unknown] => {
      return [
        name,
        typeof value === 'object' && value !== null ? inOrder(value as object, () => false) : value,
      ]
    },
  )
  return [options, inOrder(sessionOptions.extra, (name) => entryNotOfGraph.test(name))]
}
