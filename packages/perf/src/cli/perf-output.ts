import { basename, dirname, join, resolve } from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { InferenceError } from 'zerohop'
import { failureOf, isSameFile, printJson, tell } from 'zerohop/internals'
import { reportOf } from '../perf/html-report/report.ts'
import { checkFilePlace, savedText, writeWholeFile } from '../perf/html-report/saved-result.ts'
import { composingCsvReport, csvReport } from '../perf/report/csv-report.ts'
import type { PerfResult } from '../perf/result-schema.ts'
import type { PerfContext, PerfOptions } from './perf-extension.ts'

/** Adds the options to a command. */
export function addOutputOptions(command: Command): Command {
  return command
    .optionsGroup('Output:')
    .option('-v, --verbose', 'print each window', false)
    .option('-f, --latency-report-file <file>', 'write a CSV table of all levels', filePlace)
    .option('--verbose-csv', 'add columns to the CSV table', false)
    .option('--profile-export-file <file>', 'write each request as JSON', filePlace)
    .option('--report <file>', 'write an HTML page with charts of all levels', filePlace)
    .option('--json [file]', 'print only JSON, or write JSON for zerohop perf-report', filePlace)
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

/**
 * Writes all requested outputs. If one cannot be written, the others still are. @throws the first failure,
 * after reporting the others.
 */
export async function writeOutputs(result: PerfResult, context: PerfContext): Promise<void> {
  const failures: unknown[] = []
  for (const write of [writeTables, writeRequests, writeResult])
    await write(result, context).catch((error: unknown) => failures.push(error))
  for (const failure of failures.slice(1)) tell(failureOf(failure))
  if (failures.length > 0) throw failures[0]
}

/** Writes the table of -f and, for an ensemble, one more file per model, named after the model. */
async function writeTables(result: PerfResult, { options }: PerfContext): Promise<void> {
  const { latencyReportFile: path, verboseCsv } = options
  if (path === undefined) return
  await writeWholeFile('--latency-report-file', path, csvReport(result, verboseCsv))
  for (const [index, { model, version }] of (result.levels[0]?.composingModels ?? []).entries()) {
    const own = join(dirname(path), `${model}_v${version}.${basename(path)}`)
    await writeWholeFile('--latency-report-file', own, composingCsvReport(result, index))
  }
}

/** Writes each request. A scenario does not keep requests; its result is written instead. */
async function writeRequests(result: PerfResult, { options, profile }: PerfContext): Promise<void> {
  const path = options.profileExportFile
  if (path === undefined) return
  if (result.scenario === undefined) await profile?.write(path, result)
  else await writeWholeFile('--profile-export-file', path, `${JSON.stringify(result)}\n`)
}

/** The result as a page, or for programs. */
async function writeResult(result: PerfResult, { options: { json, report } }: PerfContext): Promise<void> {
  if (json === true) printJson(result)
  if (typeof json === 'string') await writeWholeFile('--json', json, savedText(result))
  if (report !== undefined) await writeWholeFile('--report', report, reportOf(result))
}
