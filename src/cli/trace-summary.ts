import { Command } from 'commander'
import { dataFlowText } from '../trace-files/data-flow-text.ts'
import { readTraceFile, type TraceFile } from '../trace-files/read-trace-file.ts'
import type { Trace } from '../trace-files/trace.ts'
import { summarize } from '../trace-files/model-summary.ts'
import { summaryText, traceText } from '../trace-files/model-summary-text.ts'
import { tellLine } from './failure.ts'
import { escaped } from './one-line.ts'
import { printJson } from './print-json.ts'

interface SummaryOptions {
  readonly showTrace: boolean
  readonly verbose: boolean
  readonly json: boolean
}

/** `zerohop trace-summary FILE...`: what the requests of files of traces took on average, as Triton's tool of that name prints it. */
export const traceSummary = new Command('trace-summary')
  .description('sum up files of traces, of this library or of Triton: what requests took on average, by model')
  .argument('<file...>', 'files of traces')
  .option('-t, --show-trace', 'show each trace, with the time between its timestamps', false)
  .option('-v, --verbose', 'show what the files hold, as JSON', false)
  .option('-j, --json', 'print JSON', false)
  .action(async (paths: string[], { showTrace, verbose, json }: SummaryOptions) => {
    const found: object[] = []
    for (const path of paths) {
      const file = await readTraceFile(path)
      if (file.cut) tellLine(`${path} ends within a record, which is left out`)
      if (json) found.push({ file: path, cut: file.cut, models: summarize(file.traces), ...((showTrace || verbose) && { traces: file.traces }) })
      else process.stdout.write(textOf(file, showTrace, verbose))
    }
    if (json) printJson({ files: found })
  })

function textOf({ path, traces: read }: TraceFile, showTrace: boolean, verbose: boolean): string {
  const traces = read.map(harmless)
  const all = verbose ? `${JSON.stringify(read, null, 2)}\n` : ''
  const each = showTrace ? traces.map(traceText).join('') : ''
  return `${all}File: ${path}\n${each}${summarize(traces).map(summaryText).join('')}${dataFlowText(traces)}`
}

/** Without anything that would show as more than a word among others. */
function harmless(trace: Trace): Trace {
  return {
    ...trace,
    model: escaped(trace.model),
    ...(trace.error !== undefined && { error: escaped(trace.error) }),
    timestamps: trace.timestamps.map(({ name, ns }) => ({ name: escaped(name), ns })),
    tensors: trace.tensors.map(({ activity, name, data, shape, dtype }) => ({ activity: escaped(activity), name: escaped(name), data: escaped(data), shape, dtype })),
  }
}
