import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { libraryVersion, requireFromPackage } from '../base/own-package.ts'
import { outliveClosedPipes, tellFailure, usualExitCodes } from './command-line.ts'

/** The package for measuring, tuning and simulating. */
const toolsPackage = '@zerohop/perf'

/** Its commands, with their descriptions in the help. */
export const toolCommands: Readonly<Record<string, string>> = {
  perf: 'measure throughput and latency of a model in this process, as perf_analyzer does',
  'perf-report':
    'write an HTML page with charts of one result of `zerohop perf --json`, or a comparison of several',
  tune: 'find the instances, threads, batch size and delay with the highest throughput on this machine, within bounds of latency and memory',
  simulate:
    'predict latency and throughput of a recorded or generated load with another configuration or speed, by running the queue on a virtual clock',
  'trace-summary': 'summarise trace files of zerohop or Triton: average times of requests, by model',
  'trace-export':
    "convert trace files to a timeline for Perfetto's viewer (ui.perfetto.dev), or to a recording for replay",
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
  outliveClosedPipes(exitCode)
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
