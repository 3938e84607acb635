import { Command } from 'commander'
import {
  dataFlowText,
  ModelSummaries,
  type ModelSummary,
  summaryText,
  traceText,
} from '../trace-files/model-summary.ts'
import { eachTrace, readTraceFile, type Trace } from '../trace-files/read-trace-file.ts'
import { tellLine, escaped, printJson } from 'zerohop/internals'
import { writeParts } from './write-parts.ts'

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
  .description(
    'sum up files of traces, of this library or of Triton: what requests took on average, by model',
  )
  .argument('<file...>', 'files of traces')
  .option('-t, --show-trace', 'show each trace, with the time between its timestamps', false)
  .option('-v, --verbose', 'show what the files hold, as JSON', false)
  .option('-j, --json', 'print JSON', false)
  .action(async (paths: string[], { showTrace, verbose, json }: SummaryOptions) => {
    const found: object[] = []
    for (const path of paths) {
      const summary = await summaryOf(path, showTrace || verbose)
      const { cut, models, traces } = summary
      if (cut) tellLine(`${path} ends within a record, which is left out`)
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
  for (const summary of models) yield summaryText(harmlessSummary(summary))
  yield dataFlowText(withTensors.map(harmless))
}

/** A JSON array, serialised one trace at a time. */
function* jsonOf(traces: readonly Trace[]): Generator<string> {
  for (const [index, trace] of traces.entries()) {
    const lines = JSON.stringify(trace, null, 2).split('\n')
    yield `${index === 0 ? '[' : ','}\n${lines.map((line) => `  ${escaped(line)}`).join('\n')}`
  }
  yield traces.length === 0 ? '[]\n' : '\n]\n'
}

/** A trace without control characters in its texts. */
function harmless(trace: Trace): Trace {
  return {
    ...trace,
    model: escaped(trace.model),
    ...(trace.error !== undefined && { error: escaped(trace.error) }),
    timestamps: trace.timestamps.map(({ name, ns }) => ({ name: escaped(name), ns })),
    tensors: trace.tensors.map(({ activity, name, data, shape, dtype }) => ({
      activity: escaped(activity),
      name: escaped(name),
      data: escaped(data),
      shape,
      dtype,
    })),
  }
}

function harmlessSummary(summary: ModelSummary): ModelSummary {
  const failures = Object.entries(summary.failures).map(([why, count]) => [escaped(why), count])
  return {
    ...summary,
    model: escaped(summary.model),
    failures: Object.fromEntries(failures) as ModelSummary['failures'],
  }
}
