import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Command } from 'commander'
import { escaped, isSameFile, printJson, tellLine } from 'zerohop/internals'
import {
  dataFlowText,
  ModelSummaries,
  type ModelSummary,
  summaryText,
  traceText,
} from '../trace-files/model-summary.ts'
import { perfettoTimeline } from '../trace-files/perfetto-timeline.ts'
import { eachTrace, readTraceFile, type Trace } from '../trace-files/read-trace-file.ts'
import { arrivalsOf } from '../trace-files/trace-arrivals.ts'

interface SummaryOptions {
  readonly showTrace: boolean
  readonly verbose: boolean
  readonly json: boolean
}

/** The summary of a file. */
interface FileSummary {
  readonly path: string
  readonly cut: boolean
  readonly models: readonly ModelSummary[]
  /** The first traces with tensors. */
  readonly withTensors: readonly Trace[]
  /** All traces; `null` if they are not shown. */
  readonly traces: readonly Trace[] | null
}

/** An example of the flow of tensors is chosen from so many traces. */
const mostWithTensors = 100

/**
 * `zerohop trace-summary FILE...`: average times of the requests in trace files, as Triton's tool of that
 * name prints them.
 */
export const traceSummary = new Command('trace-summary')
  .description('summarise trace files of zerohop or Triton: average times of requests, by model')
  .argument('<file...>', 'trace files')
  .option('-t, --show-trace', 'show each trace, with the time between its timestamps', false)
  .option('-v, --verbose', 'show the contents of the files as JSON', false)
  .option('-j, --json', 'print JSON', false)
  .action(async (paths: string[], { showTrace, verbose, json }: SummaryOptions) => {
    const found: object[] = []
    for (const path of paths) {
      const summary = await summaryOf(path, showTrace || verbose)
      const { cut, models, traces } = summary
      if (cut) tellLine(`${path} ends within a record, which is skipped`)
      if (json) found.push({ file: path, cut, models, ...(traces !== null && { traces }) })
      else await writeParts(textOf(summary, showTrace, verbose))
    }
    if (json) printJson({ files: found })
  })

/** @param keeps whether to keep the traces, not only their sums. */
async function summaryOf(path: string, keeps: boolean): Promise<FileSummary> {
  const summaries = new ModelSummaries()
  const withTensors: Trace[] = []
  const add = (trace: Trace) => {
    summaries.add(trace)
    if (trace.tensors.length > 0 && withTensors.length < mostWithTensors) withTensors.push(trace)
  }
  const { cut, traces } = keeps
    ? await readTraceFile(path)
    : { ...(await eachTrace(path, add)), traces: null }
  traces?.forEach(add)
  return {
    path,
    cut,
    models: summaries.all,
    withTensors: withTensors.toSorted((a, b) => a.id - b.id),
    traces,
  }
}

function* textOf(
  { path, models, withTensors, traces }: FileSummary,
  showTrace: boolean,
  verbose: boolean,
): Generator<string> {
  if (verbose) yield* jsonOf(traces!)
  yield `File: ${escaped(path)}\n`
  if (showTrace) for (const trace of traces!) yield traceText(harmless(trace))
  for (const summary of models) yield summaryText(harmless(summary))
  yield dataFlowText(harmless(withTensors))
}

/** A JSON array, serialised one trace at a time. */
function* jsonOf(traces: readonly Trace[]): Generator<string> {
  for (const [index, trace] of traces.entries()) {
    const lines = JSON.stringify(trace, null, 2).split('\n')
    yield `${index === 0 ? '[' : ','}\n${lines.map((line) => `  ${escaped(line)}`).join('\n')}`
  }
  yield traces.length === 0 ? '[]\n' : '\n]\n'
}

/** A copy without control characters in its texts. */
function harmless<T>(value: T): T {
  if (typeof value === 'string') return escaped(value) as T
  if (Array.isArray(value)) return value.map(harmless) as T
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).map(([name, own]) => [escaped(name), harmless(own as unknown)])
  return Object.fromEntries(fields) as T
}

interface ExportOptions {
  readonly perfetto: boolean
  readonly arrivals: boolean
  readonly out?: string
}

/** Share of JavaScript's memory for traces: drawing them takes more. */
const timelineShare = 0.2

/** `zerohop trace-export FILE...`: converts trace files. */
export const traceExport = new Command('trace-export')
  .description(
    "convert trace files to a timeline for Perfetto's viewer (ui.perfetto.dev), or to a recording for replay",
  )
  .argument('<file...>', 'trace files')
  .option('--perfetto', 'timeline: workers with their batches, requests, queue length', false)
  .option('--arrivals', 'recording: a line of JSON for each request of a caller', false)
  .option('-o, --out <file>', 'file to write (default for a recording: standard output)')
  .action(async function (this: Command, paths: string[], { perfetto, arrivals, out }: ExportOptions) {
    if (perfetto === arrivals) this.error('error: give either --perfetto or --arrivals')
    if (perfetto && out === undefined)
      this.error('error: --perfetto needs --out, because a timeline is binary')
    if (out !== undefined && paths.some((path) => isSameFile(path, out)))
      this.error(`error: --out ${out} is one of the trace files: name another file`)
    const traces: Trace[] = []
    for (const path of paths) {
      const file = await readTraceFile(path, perfetto ? timelineShare : undefined)
      if (file.cut) tellLine(`${path} ends within a record, which is skipped`)
      for (const trace of file.traces) traces.push(trace)
    }
    await writeParts(perfetto ? perfettoTimeline(traces) : lines(arrivalsOf(traces)), out)
  })

function* lines(values: readonly object[]): Generator<string> {
  for (const value of values) yield `${JSON.stringify(value)}\n`
}

/**
 * Writes parts one after the other, at the reader's pace. Stops if the reader closes standard output early.
 *
 * @param path a file; omitted or `undefined` for standard output.
 */
async function writeParts(parts: Iterable<string | Uint8Array>, path?: string): Promise<void> {
  try {
    await pipeline(Readable.from(parts), path === undefined ? process.stdout : createWriteStream(path), {
      end: path !== undefined,
    })
  } catch (error) {
    if (path !== undefined || !wasClosed.has((error as NodeJS.ErrnoException).code!)) throw error
  }
}

const wasClosed = new Set(['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'])
