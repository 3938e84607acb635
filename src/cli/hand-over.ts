import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { libraryVersion } from '../base/own-package.ts'
import { requireFromPackage } from '../base/own-package.ts'
import { tellFailure, usualExitCodes } from './command-line.ts'

/** The package for measuring, tuning and simulating. */
const toolsPackage = '@zerohop/perf'

/** Its commands, with their descriptions in the help. */
export const toolCommands: Readonly<Record<string, string>> = {
  perf: 'measure throughput and latency of a model, in this process, with the options and the output of perf_analyzer',
  'perf-report':
    'write a page with charts and tables of results that `zerohop perf --json` has kept: of one, or of several beside each other',
  tune: 'find the instances, threads, batch size and delay with which a model serves most on this machine, within bounds of latency and memory',
  simulate:
    'predict latency and throughput of a recorded or made-up load, with another configuration or speed, in seconds: the queue itself on a virtual clock',
  'trace-summary':
    'sum up files of traces, of this library or of Triton: what requests took on average, by model',
  'trace-export':
    "turn files of traces into a timeline for Perfetto's viewer (ui.perfetto.dev), or into a recording of arrivals to be replayed",
}

/** `perf` exits with 1 if answers differ, and with this for errors without a code of their own. */
const perfWrong = 99

/**
 * Runs a command of the tools' package, which reads this process's arguments. If the package is missing,
 * prints how to install it.
 */
export async function handOver(command: string): Promise<void> {
  const { folder, others } = findTools()
  if (folder !== null) {
    await import(pathToFileURL(join(folder, 'dist/cli/main.js')).href)
    return
  }
  const wanted = `${toolsPackage}@${libraryVersion}`
  const found = others.length === 0 ? '' : `, and found version ${others.join(' and ')}`
  const exitCode = command === 'perf' ? perfWrong : usualExitCodes.wrong
  process.exitCode = exitCode
  tellFailure({
    code: 'ERR_MODULE_NOT_FOUND',
    message: `zerohop ${command} needs the package ${wanted}${found}: install it (npm install ${wanted}), or run npx -p zerohop@${libraryVersion} -p ${wanted} zerohop ${command}`,
    exitCode,
  })
}

/**
 * The package of this version, in the working folder or beside this package; and the other versions found.
 */
function findTools(): { readonly folder: string | null; readonly others: readonly string[] } {
  const others = new Set<string>()
  for (const require of [createRequire(join(process.cwd(), 'package.json')), requireFromPackage]) {
    const manifest = resolved(require)
    if (manifest === null) continue
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
    if (version === libraryVersion) return { folder: dirname(manifest), others: [] }
    others.add(version)
  }
  return { folder: null, others: [...others] }
}

function resolved(require: NodeJS.Require): string | null {
  try {
    return require.resolve(`${toolsPackage}/package.json`)
  } catch {
    return null // not installed there
  }
}
