import { readFileSync, readSync, statSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { withRegularFileSync } from '../../base/files.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { ModelRuntime, OpenOptions } from '../../options/session-options.ts'
import { hashOfText } from './cache-folder.ts'

/** The graph, optimised by ONNX Runtime for this machine. */
export const graphFile = 'model.onnx'

/** The note of a model that was run once on made-up values, and need not be run again before it serves. */
export const warmNote = 'warm'
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
function graphOptionsOf({ sessionOptions }: ResolvedConfig): Record<string, string> {
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

/** What an entry is made for. Its key is a hash of all of it. */
export interface MadeFor {
  /** The hash of the model and its weight files. */
  readonly content: string
  readonly executor: string
  /** ONNX Runtime's version. */
  readonly ortVersion: string
  /** Operating system and architecture. */
  readonly system: string
  /** The processor's features that kernels are chosen by, or else its name. */
  readonly processor: string
  readonly providers: string
  /** Why there is no compiled form; else `null`. */
  readonly obstacle: string | null
  /** The session options that affect the graph. */
  readonly options: Readonly<Record<string, string>>
}

/**
 * All that changes the compiled form of a model, or whether it can be compiled.
 *
 * @param obstacle why there is no compiled form; else `null`.
 */
export function madeFor(
  content: string,
  { executor, ortVersion, onCpuOnly }: ModelRuntime,
  config: ResolvedConfig,
  obstacle: string | null,
): MadeFor {
  const providers = onCpuOnly
    ? 'cpu'
    : inspect([config.executionProviders, config.instanceGroup.map(({ kind, gpus }) => [kind, gpus])], {
        depth: null,
      })
  return {
    content,
    executor,
    ortVersion,
    system: `${process.platform} on ${process.arch}`,
    processor: processorFeatures(),
    providers,
    obstacle,
    options: graphOptionsOf(config),
  }
}

/** The name of an entry. */
export function keyOf(made: MadeFor): string {
  return hashOfText(JSON.stringify(made))
}

/** In what an entry was made for something else. */
export function differences(made: MadeFor, wanted: MadeFor): string[] {
  const found: string[] = []
  if (made.system !== wanted.system) found.push(`${made.system} (this is ${wanted.system})`)
  if (made.system === wanted.system && made.processor !== wanted.processor)
    found.push(otherProcessor(made.processor, wanted.processor))
  if (made.ortVersion !== wanted.ortVersion)
    found.push(`ONNX Runtime ${made.ortVersion} (this is ${wanted.ortVersion})`)
  if (made.executor !== wanted.executor)
    found.push(`executor: '${made.executor}' (this is '${wanted.executor}')`)
  if (made.providers !== wanted.providers || made.obstacle !== wanted.obstacle)
    found.push('other execution providers')
  const names = new Set([...Object.keys(made.options), ...Object.keys(wanted.options)])
  const others = [...names].filter((name) => made.options[name] !== wanted.options[name])
  if (others.length > 0) found.push(`other options (${others.join(', ')})`)
  return found
}

function otherProcessor(made: string, here: string): string {
  const [needed, has] = [made.split(' '), here.split(' ')]
  const lacking = needed.filter((feature) => !has.includes(feature))
  if (lacking.length > 0) return `a processor with ${firstOf(lacking)}, which this one lacks`
  const more = has.filter((feature) => !needed.includes(feature))
  return `a processor without ${firstOf(more)}, which this one has`
}

const featuresNamed = 8

function firstOf(features: readonly string[]): string {
  const rest = features.length - featuresNamed
  return `${features.slice(0, featuresNamed).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
}

let ownFeatures: string | undefined

/**
 * The features of this machine's processor that kernels, and with them the layout of compiled weights, are chosen by; if
 * the system does not list them, the processor's name.
 */
function processorFeatures(): string {
  return (ownFeatures ??= featuresOf(processorInfo()) ?? cpus()[0]?.model ?? '')
}

/**
 * The instruction sets for vectors and matrices in a list of Linux. What else is in it (of virtual machines, of the
 * kernel's protections) differs between machines of one kind.
 */
export function featuresOf(info: string | null): string | null {
  const list = /^(?:flags|Features)\s*:(.*)$/m.exec(info ?? '')?.[1]
  const features = list
    ?.trim()
    .split(/\s+/)
    .filter((feature) => ofVectors.test(feature))
  return features === undefined ? null : features.sort().join(' ')
}

/** x86: up to AMX; ARM: from NEON (asimd) to SME. */
const ofVectors =
  /^(?:s?sse|pni$|avx|amx|fma|f16c$|xop$|gfni$|vaes$|vpclmul|asimd|neon|vfp|fp(?:hp)?$|fcma$|sve|sme|i8mm$|bf16$|ebf16$|i16i64$|f64f64$)/

const mostBytes = 16_384

/** What Linux says of its first processor (with hundreds of them the full list is slow); else `null`. */
function processorInfo(): string | null {
  try {
    const buffer = Buffer.alloc(mostBytes)
    return withRegularFileSync('/proc/cpuinfo', (file) =>
      buffer.toString('latin1', 0, readSync(file, buffer, 0, mostBytes, 0)),
    )
  } catch {
    return null // not available
  }
}

/** A longer file of a graph without its weights is not looked through. */
const mostGraphBytes = 2 ** 24
/** Parts of the names of operators whose results depend on the number of threads, or on the runs of a session before. */
const unlike = ['TreeEnsemble', 'Random', 'Multinomial', 'Bernoulli', 'Dropout']

/**
 * Whether all sessions of a compiled form give the same answers bit by bit, whatever their threads. Of 217 graphs with 1, 2 and 4
 * threads only ensembles of trees did not, whose sums are divided among them; generators of random numbers count their runs.
 */
export function answersAlike(path: string): boolean {
  try {
    if (statSync(path).size > mostGraphBytes) return false
    const graph = readFileSync(path)
    return unlike.every((name) => !graph.includes(name))
  } catch {
    return false // opening it says what is wrong
  }
}
