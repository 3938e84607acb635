import { basename, dirname, join, resolve } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { InferenceError } from 'zerohop'
import { isSameFile } from 'zerohop/internals'
import { checkFilePlace, writeWholeFile } from '../perf/html-report/saved-result.ts'
import { composingCsvReport, csvReport } from '../perf/report/csv-report.ts'
import type { PerfResult } from '../perf/result.ts'
import type { PerfExtension, PerfOptions } from './perf-extension.ts'

/** Writes the table of -f and, for an ensemble, one more file per model, named after the model. */
async function writeCsv(path: string, result: PerfResult, verbose: boolean): Promise<void> {
  await writeWholeFile('--latency-report-file', path, csvReport(result, verbose))
  for (const [index, { model, version }] of (result.levels[0]?.composingModels ?? []).entries()) {
    await writeWholeFile(
      '--latency-report-file',
      join(dirname(path), `${model}_v${version}.${basename(path)}`),
      composingCsvReport(result, index),
    )
  }
}

/** `-f`: all levels as a table. */
export const levelTable: PerfExtension = {
  addOptions: (command: Command) =>
    void command
      .optionsGroup('Output:')
      .option('-f, --latency-report-file <file>', 'write a CSV table of all levels', filePlace)
      .option('--verbose-csv', 'add columns to the CSV table', false),
  async report(result, { options }) {
    if (options.latencyReportFile !== undefined)
      await writeCsv(options.latencyReportFile, result, options.verboseCsv)
  },
}

/**
 * `--profile-export-file`: each request. A scenario does not keep requests; its result is written instead.
 */
export const requestExport: PerfExtension = {
  addOptions: (command: Command) =>
    void command
      .optionsGroup('Output:')
      .option('--profile-export-file <file>', 'write each request as JSON', filePlace),
  async report(result, { options: { profileExportFile: path }, profile }) {
    if (path === undefined) return
    if (result.scenario === undefined) await profile?.write(path, result)
    else await writeWholeFile('--profile-export-file', path, `${JSON.stringify(result)}\n`)
  },
}

/** Checks that a file can be written at a path, before measuring begins. */
export function filePlace(path: string): string {
  try {
    checkFilePlace('file', path)
  } catch (error) {
    if (error instanceof InferenceError) throw new InvalidArgumentError(`Expected ${String(error.expected)}.`)
    throw error
  }
  return path
}

const outputs = ['latencyReportFile', 'profileExportFile', 'json', 'report'] as const

const inputs = ['modelName', 'replay', 'inputData'] as const

/**
 * Ends the program if an output file is also another output file or an input file, which it would overwrite.
 */
export function refuseSharedFiles(options: PerfOptions, command: Command): void {
  const paths = outputs.flatMap((name) => (typeof options[name] === 'string' ? resolve(options[name]) : []))
  const twice = paths.find((path, index) => paths.indexOf(path) !== index)
  if (twice !== undefined)
    command.error(`error: two results would be written to ${twice}: name a file for each`)
  const read = inputs.flatMap((name) => [options[name]].flat().filter((path) => typeof path === 'string'))
  const lost = paths.find((path) => read.some((other) => isSameFile(path, other)))
  if (lost !== undefined) command.error(`error: ${lost} is also read: name another file for the result`)
}
