import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { PerfOptions } from './perf-extension.ts'
import { isSameFile } from './same-file.ts'

const outputs = ['latencyReportFile', 'profileExportFile', 'report', 'json']
const inputs = ['modelName', 'replay', 'inputData']

/** Ends the program where a file would be written over what is read, or over another one that is written. */
export function refuseOverwriting(command: Command): void {
  const options: PerfOptions = command.opts()
  const flagOf = (name: string) => command.options.find((option) => option.attributeName() === name)!.long!
  const pathsOf = (names: readonly string[]) => names.flatMap((name) => [options[name]].flat().flatMap((path) => (typeof path === 'string' ? [{ flag: flagOf(name), path }] : [])))
  const written = pathsOf(outputs)
  for (const [index, { flag, path }] of written.entries()) {
    const own = pathsOf(inputs).find((read) => isSameFile(read.path, path)) ?? written.slice(0, index).find((before) => resolve(before.path) === resolve(path))
    if (own !== undefined) command.error(`error: ${flag} ${path} names the file of ${own.flag}`)
  }
}
