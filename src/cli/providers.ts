import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { resolve, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { Command, InvalidArgumentError, Option } from 'commander'
import { InferenceError, type ProviderCapability } from '../index.ts'
import { BuiltInProviders } from '../run/built-in-providers.ts'
import { builtInCapability, describeDevice } from '../run/engine-providers.ts'
import { openNativeOrt, type NativeOrt } from '../run/executors/native/native-ort.ts'
import { openPlugin } from '../run/provider-plugins.ts'
import { switchOffTelemetry } from '../run/telemetry.ts'
import { printJson } from './command-line.ts'

/** `zerohop providers`: what models can run on here. */
export const providers = new Command('providers')
  .description('try the execution providers built into ONNX Runtime, and plugins, and list their devices')
  .addOption(
    new Option('-p, --plugin <name=library>', 'plugin to try; repeatable')
      .argParser(addPlugin)
      .default([], 'none'),
  )
  .option(
    '-f, --find',
    'find installed plugins, in node_modules and Python environments, and try them',
    false,
  )
  .option('-j, --json', 'print JSON', false)
  .action(async ({ plugin: given, find, json }: { plugin: FoundPlugin[]; find: boolean; json: boolean }) => {
    switchOffTelemetry(undefined)
    const ort = openNativeOrt()
    if (ort.binding === null)
      throw new InferenceError(
        'ERR_NATIVE_LOAD',
        `plugins need the native executor, which is not available: ${ort.reason}`,
      )
    const found = find ? await findPlugins() : []
    const builtIn = new BuiltInProviders()
    builtIn.readNames(ort)
    await builtIn.tryAll()
    const plugins: ProviderCapability[] = []
    // One after the other, as each trial uses the cores.
    for (const plugin of [...given, ...found]) plugins.push(await tryPlugin(ort, plugin))
    const all = [...builtIn.all.map(builtInCapability), ...plugins]
    if (json) return printJson(all)
    process.stdout.write(`ONNX Runtime ${ort.version}\n\n${all.map(shown).join('\n')}`)
    if (find) process.stdout.write(found.length === 0 ? installation : usage(plugins))
  })

const installation = `
No plugin is installed where zerohop looks: node_modules, $VIRTUAL_ENV, .venv, and the packages of python3. To install one:

  python3 -m venv .venv && .venv/bin/pip install onnxruntime-ep-openvino
`

async function tryPlugin(ort: NativeOrt, { name, library }: FoundPlugin): Promise<ProviderCapability> {
  const { devices, reason } = await openPlugin(ort, name, library)
  const found = {
    available: reason === null,
    reason: reason ?? 'it ran a model in a separate process',
    devices: devices.map(describeDevice),
  }
  return { name, source: 'plugin', library, ...found }
}

function shown({ name, source, available, reason, library, devices }: ProviderCapability): string {
  const word = available === null ? 'perhaps' : available ? 'yes' : 'no'
  const lines = devices.map(({ device, name: itsName }) => `    ${device}: ${itsName}\n`)
  return `${name} (${source}): ${word}, ${reason}\n${library === undefined ? '' : `    ${library}\n`}${lines.join('')}`
}

function usage(plugins: readonly ProviderCapability[]): string {
  const usable = plugins.filter(({ available }) => available)
  if (usable.length === 0) return '\nNone of the installed plugins can be used here.\n'
  const entries = usable.map(({ name, library }) => `${name}: { library: ${JSON.stringify(library)} }`)
  return `\nTo use them: new InferenceEngine({ providers: { ${entries.join(', ')} } })\n`
}

/** Parses `name=library`, and adds it to the earlier ones. */
function addPlugin(value: string, before: readonly FoundPlugin[]): FoundPlugin[] {
  const [, name, library] = /^([a-z][a-z0-9_-]*)=(.+)$/.exec(value) ?? []
  if (name === undefined || library === undefined)
    throw new InvalidArgumentError('Expected a name and a path, such as openvino=plugins/openvino.so.')
  return [...before, { name, library: resolve(library) }]
}

/** An installed plugin: the name that its package suggests, and its library. */
interface FoundPlugin {
  readonly name: string
  readonly library: string
}

const packageName = /^onnxruntime[-_]ep[-_](\w+)$/
const libraryName = /^(?:lib)?onnxruntime_(?:providers|ep)_\w+\.(?:so|dylib|dll)$/

/** Most milliseconds for Python to report where its packages are. */
const pythonLimitMs = 10_000

/**
 * Finds packages of provider plugins (`onnxruntime-ep-...`), in the `node_modules` of a folder and its
 * parents, and among the packages of Python: of the active virtual environment, one in `.venv`, and `python3`
 * on the PATH.
 */
export async function findPlugins(folder = process.cwd()): Promise<FoundPlugin[]> {
  const { VIRTUAL_ENV: active } = process.env
  const environments = [...(active === undefined ? [] : [active]), join(folder, '.venv')]
  const places = [
    ...nodeModulesAbove(folder),
    ...environments.flatMap(sitePackagesOf),
    ...(await sitePackagesOfPython()),
  ]
  const found = new Map<string, FoundPlugin>()
  for (const place of places) for (const plugin of pluginsIn(place)) found.set(plugin.library, plugin)
  return [...found.values()]
}

function nodeModulesAbove(folder: string): string[] {
  const path = resolve(folder)
  const above = dirname(path)
  return [join(path, 'node_modules'), ...(above === path ? [] : nodeModulesAbove(above))]
}

function sitePackagesOf(environment: string): string[] {
  const versions = namesIn(join(environment, 'lib')).filter((name) => name.startsWith('python'))
  return [
    ...versions.map((name) => join(environment, 'lib', name, 'site-packages')),
    join(environment, 'Lib', 'site-packages'),
  ]
}

async function sitePackagesOfPython(): Promise<string[]> {
  const program =
    'import site, sysconfig; print("\\n".join([sysconfig.get_paths()["platlib"], site.getusersitepackages()]))'
  const python = process.platform === 'win32' ? 'python' : 'python3'
  try {
    const { stdout } = await promisify(execFile)(python, ['-c', program], { timeout: pythonLimitMs })
    return stdout.split(/\r?\n/).filter(Boolean)
  } catch {
    return [] // Python is not installed
  }
}

function pluginsIn(folder: string): FoundPlugin[] {
  return namesIn(folder).flatMap((directory) => {
    const [, name] = packageName.exec(directory) ?? []
    if (name === undefined) return []
    return librariesIn(join(folder, directory)).map((library) => ({ name: name.toLowerCase(), library }))
  })
}

/** Packages have their library at their root, or not far below. */
function librariesIn(folder: string, depth = 4): string[] {
  if (depth === 0) return []
  return readDirectory(folder).flatMap((entry) => {
    if (entry.isDirectory()) return librariesIn(join(folder, entry.name), depth - 1)
    return libraryName.test(entry.name) ? [join(folder, entry.name)] : []
  })
}

const namesIn = (folder: string): string[] => readDirectory(folder).map(({ name }) => name)

function readDirectory(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return [] // does not exist
  }
}
