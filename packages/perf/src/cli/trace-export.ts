import { Command } from 'commander'
import { perfettoTimeline } from '../trace-files/perfetto-timeline.ts'
import { readTraceFile, type Trace } from '../trace-files/read-trace-file.ts'
import { arrivalsOf } from '../trace-files/trace-arrivals.ts'
import { tellLine, isSameFile } from 'zerohop/internals'
import { writeParts } from './write-parts.ts'

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
    "turn files of traces into a timeline for Perfetto's viewer (ui.perfetto.dev), or into a recording of arrivals to be replayed",
  )
  .argument('<file...>', 'files of traces')
  .option('--perfetto', 'a timeline: workers with their batches, requests, how many wait', false)
  .option('--arrivals', 'a recording: a line of JSON for each request of a caller', false)
  .option('-o, --out <file>', 'where to; a recording goes to standard output without')
  .action(async function (this: Command, paths: string[], { perfetto, arrivals, out }: ExportOptions) {
    if (perfetto === arrivals) this.error('one of --perfetto and --arrivals has to be given, and not both')
    if (perfetto && out === undefined) this.error('--perfetto takes --out, as a timeline is no text')
    if (out !== undefined && paths.some((path) => isSameFile(path, out)))
      this.error(`error: --out ${out} is one of the files of traces`)
    const traces: Trace[] = []
    for (const path of paths) {
      const file = await readTraceFile(path, perfetto ? timelineShare : undefined)
      if (file.cut) tellLine(`${path} ends within a record, which is left out`)
      for (const trace of file.traces) traces.push(trace)
    }
    await writeParts(perfetto ? perfettoTimeline(traces) : lines(arrivalsOf(traces)), out)
  })

function* lines(values: readonly object[]): Generator<string> {
  for (const value of values) yield `${JSON.stringify(value)}\n`
}
