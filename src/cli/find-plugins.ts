import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

/** An installed plugin: the name that its package suggests, and its library. */
export interface FoundPlugin {
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
