import { statSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Command, Option } from 'commander'
import { modelsCompiled, resourcesOf } from '../engine/engine-resources.ts'
import { InferenceError } from '../errors.ts'
import { defined } from '../options/plain-options.ts'
import { readRepository } from '../features/triton-repository/read-repository.ts'
import { isFolder } from '../features/triton-repository/model-folder.ts'
import { InferenceEngine, type EngineOptions, type ModelConfig } from '../index.ts'
import type { Manifest } from '../models/compiled-models/entry.ts'
import { settledAfterMs } from '../models/compiled-models/model-content.ts'
import { resolveConfig } from '../options/model-config.ts'
import {
  failureOf,
  oneLine,
  printJson,
  tell,
  tellLine,
  usualExitCodes,
  type Failure,
} from './command-line.ts'

interface CompileOptions {
  readonly cache?: string
  readonly executor: 'auto' | 'native' | 'binding'
  readonly check: boolean
  readonly json: boolean
}

/** `zerohop compile`: fills a folder with compiled models, for an image or a volume. */
export const compile = new Command('compile')
  .description(
    'fill a cache folder with the compiled form of a model, or of all models of a repository, for a container image or a volume',
  )
  .argument('<model>', 'path of an .onnx file, or the folder of a Triton model repository')
  .option('-c, --cache <dir>', "folder of the cache (default: $ZEROHOP_CACHE, or the user's)")
  .addOption(
    new Option('-e, --executor <kind>', 'executor of the engine that loads them')
      .choices(['auto', 'native', 'binding'])
      .default('auto'),
  )
  .option('--check', 'compile nothing: say whether the folder is complete for this processor', false)
  .option('-j, --json', 'print JSON', false)
  .addHelpText(
    'after',
    '\nExit codes: 0 the folder has all models; 1 it does not (the table says which, and why); 2 usage.',
  )
  .action(async (path: string, { cache, executor, check, json }: CompileOptions, command: Command) => {
    const options: EngineOptions = {
      executor,
      verify: 'child',
      cache: { ...defined({ dir: cache }), maxBytes: Number.MAX_SAFE_INTEGER },
    }
    if (cache === undefined && process.env['ZEROHOP_CACHE'] === 'off')
      command.error('error: the cache is turned off by ZEROHOP_CACHE: name its folder with --cache <dir>')
    const report = await reportOf(path, options, check)
    if (json) printJson(report)
    else process.stdout.write(reportText(report))
    if (!report.complete) process.exitCode = usualExitCodes.wrong
  })

/** One version of a model, as its repository or its path describes it. */
interface Wanted {
  readonly name: string
  readonly config: ModelConfig & { path: string }
  /** Turns an error of its load into one about its configuration file. */
  readonly atField: (error: InferenceError) => InferenceError
}

/** What the folder has of a model. */
interface CompiledModel {
  readonly model: string
  readonly version: number
  readonly path: string
  /** `compiled`: in the folder. `as it is`: it never has a compiled form. `missing`: it is to be compiled, and is not. */
  readonly state: 'compiled' | 'as it is' | 'missing'
  readonly reason: string
  /** Size of the compiled form. */
  readonly byteLength: number
  /** Milliseconds for trial, load and compilation; `null` with `--check`. */
  readonly loadMs: number | null
  /** Whether it was in the folder before. */
  readonly wasThere: boolean
  /** Whether its rows are independent; `null` if it was not loaded. */
  readonly rows: { readonly rows: string; readonly how: string; readonly reason: string } | null
  readonly error?: Failure
}

/** The result of `zerohop compile`. */
export interface CompileReport {
  /** `null` if there is no usable folder. */
  readonly dir: string | null
  /** Whether the folder has all that it can have. */
  readonly complete: boolean
  readonly models: readonly CompiledModel[]
  /** Models that are for another backend, and folders that cannot be read. */
  readonly skipped: readonly { readonly model: string; readonly reason: string }[]
}

/** Compiles what is missing, one model after the other, or only looks it up. */
async function reportOf(path: string, options: EngineOptions, check: boolean): Promise<CompileReport> {
  const { wanted, unsupported, failures } = await wantedAt(path)
  const engine = new InferenceEngine(options)
  const models: CompiledModel[] = []
  try {
    if (!check) await untilSettled(wanted)
    for (const [index, each] of wanted.entries()) {
      if (!check) tellLine(`${labelOf(each)}: loading and compiling (${index + 1} of ${wanted.length})`)
      const looked = check ? lookUp(each, engine) : compileOne(each, engine)
      models.push(await looked.catch((error: unknown) => failed(each, error)))
    }
    for (const failure of failures) tell(failureOf(failure))
    return {
      dir: engine.capabilities().cache.dir,
      complete: failures.length === 0 && models.every(({ state }) => state !== 'missing'),
      models,
      skipped: [...unsupported, ...failures].map(({ model = '', message }) => ({ model, reason: message })),
    }
  } finally {
    await engine.close()
  }
}

async function compileOne(wanted: Wanted, engine: InferenceEngine): Promise<CompiledModel> {
  const before = await lookUp(wanted, engine)
  if (before.reason === forOthers) return before
  const startMs = performance.now()
  const model = await engine.load(wanted.name, forOneInstance(wanted.config))
  const { rows, how, reason } = await model.joiningKnown()
  await modelsCompiled(engine)
  const loadMs = performance.now() - startMs
  await engine.unload(wanted.name)
  const after = await lookUp(wanted, engine)
  return { ...after, loadMs, rows: { rows, how, reason }, wasThere: before.state !== 'missing' }
}

/** The reason of a model that another processor runs, which may be absent here. */
const forOthers = 'it does not run on the CPU alone'

/** What the folder has of a model, without loading it. */
async function lookUp(wanted: Wanted, engine: InferenceEngine): Promise<CompiledModel> {
  const { name } = wanted
  const { host, pluginNames } = resourcesOf(engine)
  const config = resolveConfig(name, wanted.config, pluginNames)
  const runtime = await host.devices.runtimeWithoutPlace(name, config)
  const found = await host.preparation.lookUp(name, config, runtime, new AbortController().signal)
  return runtime.onCpuOnly ? ofEntry(wanted, found) : described(wanted, 'as it is', forOthers)
}

function ofEntry(wanted: Wanted, found: Manifest | string): CompiledModel {
  if (typeof found === 'string') return described(wanted, 'missing', found)
  const { files, isFinal, reason, unsealedIn } = found
  if (unsealedIn !== null)
    return described(wanted, 'missing', 'it is not sealed, and lost when the system is started again')
  if (files === null) return described(wanted, isFinal ? 'as it is' : 'missing', reason)
  const byteLength = files.reduce((sum, file) => sum + file.byteLength, 0)
  return { ...described(wanted, 'compiled', reason), byteLength }
}

function described({ name, config }: Wanted, state: CompiledModel['state'], reason: string): CompiledModel {
  const version = Number(config.version ?? 1)
  const rest = { byteLength: 0, loadMs: null, wasThere: state !== 'missing', rows: null }
  return { model: name, version, path: resolve(config.path), state, reason, ...rest }
}

function failed(wanted: Wanted, error: unknown): CompiledModel {
  const failure = failureOf(error instanceof InferenceError ? wanted.atField(error) : error)
  tell(failure)
  return { ...described(wanted, 'missing', failure.message), error: failure }
}

/** The models of a repository without its ensembles, or the one in a file. */
async function wantedAt(path: string): Promise<{
  readonly wanted: readonly Wanted[]
  readonly unsupported: readonly InferenceError[]
  readonly failures: readonly InferenceError[]
}> {
  if (!(await isFolder(path))) {
    const name = basename(path).replace(/\.(?:onnx|ort)$/, '')
    return { wanted: [{ name, config: { path }, atField: (error) => error }], unsupported: [], failures: [] }
  }
  const { entries, unsupported, failures } = await readRepository(path)
  const wanted = entries.flatMap(({ name, configs, atField }) =>
    configs.flatMap((config) =>
      'steps' in config ? [] : [{ name, config: config as Wanted['config'], atField }],
    ),
  )
  return { wanted, unsupported, failures }
}

/** With one instance of each group, and without searches: that changes nothing of the compiled form. */
function forOneInstance(config: Wanted['config']): ModelConfig {
  const groups = config.instanceGroup?.map(({ kind, gpus }) => defined({ kind, gpus, count: 1 }))
  return { ...config, autoTune: false, ...defined({ instanceGroup: groups }) } as ModelConfig
}

/** A file that was changed a moment ago may change again unnoticed, so its hash is not remembered. */
async function untilSettled(wanted: readonly Wanted[]): Promise<void> {
  const changedAt = wanted.map(({ config }) => statSync(config.path, { throwIfNoEntry: false })?.ctimeMs ?? 0)
  const leftMs = Math.max(0, ...changedAt) + settledAfterMs + 1 - Date.now()
  if (leftMs > 0) await sleep(Math.min(leftMs, settledAfterMs))
}

const labelOf = ({ name, config }: Wanted): string =>
  config.version === undefined ? name : `${name}, version ${config.version}`

/** A report as a table. */
/** The columns of the report, by their titles. */
const columns: Readonly<Record<string, (model: CompiledModel) => string>> = {
  model: ({ model }) => oneLine(model),
  version: ({ version }) => String(version),
  time: ({ loadMs }) => (loadMs === null ? '' : `${(loadMs / 1000).toFixed(2)} s`),
  bytes: ({ byteLength }) => (byteLength === 0 ? '' : byteLength.toLocaleString('en-US')),
  rows: ({ rows }) => (rows === null ? '' : rows.rows === rows.how ? rows.rows : `${rows.rows}, ${rows.how}`),
  'in the folder': ({ state, reason, loadMs, wasThere }) =>
    state === 'compiled'
      ? wasThere && loadMs !== null
        ? 'was there'
        : 'yes'
      : `${state === 'missing' ? 'no' : state}: ${oneLine(reason)}`,
}

function reportText({ dir, complete, models, skipped }: CompileReport): string {
  const titles = Object.keys(columns)
  const lines = [titles, ...models.map((model) => Object.values(columns).map((cellOf) => cellOf(model)))]
  const widths = titles.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)))
  const shown = lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  )
  const others = skipped.map(({ model, reason }) => `skipped ${oneLine(model)}: ${oneLine(reason)}`)
  const last = `${dir ?? 'the folder'} ${complete ? 'is complete for this processor' : 'is not complete'}`
  return `${[...shown, ...others, last].join('\n')}\n`
}
