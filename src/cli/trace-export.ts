import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { Command } from 'commander'
import { perfettoTimeline } from '../trace-files/perfetto-timeline.ts'
import { readTraceFile } from '../trace-files/read-trace-file.ts'
import type { Trace } from '../trace-files/trace.ts'
import { arrivalsOf } from '../trace-files/trace-arrivals.ts'
import { tellLine } from './failure.ts'
import { isSameFile } from './same-file.ts'

interface ExportOptions {
  readonly perfetto: boolean
  readonly arrivals: boolean
  readonly out?: string
}

/** `zerohop trace-export FILE...`: files of traces in another form. */
export const traceExport = new Command('trace-export')
  .description("turn files of traces into a timeline for Perfetto's viewer (ui.perfetto.dev), or into a recording of arrivals to be replayed")
  .argument('<file...>', 'files of traces')
  .option('--perfetto', 'a timeline: workers with their batches, requests, how many wait', false)
  .option('--arrivals', 'a recording: a line of JSON for each request of a caller', false)
  .option('-o, --out <file>', 'where to; a recording goes to standard output without')
  .action(async function (this: Command, paths: string[], { perfetto, arrivals, out }: ExportOptions) {
    if (perfetto === arrivals) this.error('one of --perfetto and --arrivals has to be given')
    if (perfetto && out === undefined) this.error('--perfetto takes --out, as a timeline is no text')
    if (out !== undefined && paths.some((path) => isSameFile(path, out))) this.error(`error: --out ${out} is one of the files of traces`)
    const traces: Trace[] = []
    for (const path of paths) {
      const file = await readTraceFile(path)
      if (file.cut) tellLine(`${path} ends within a record, which is left out`)
      for (const trace of file.traces) traces.push(trace)
    }
    await write(perfetto ? perfettoTimeline(traces) : lines(arrivalsOf(traces)), out)
  })

function* lines(values: readonly object[]): Generator<string> {
  for (const value of values) yield `${JSON.stringify(value)}\n`
}

async function write(parts: Iterable<string | Uint8Array>, path: string | undefined): Promise<void> {
  const out = path === undefined ? process.stdout : createWriteStream(path)
  const failed = path === undefined ? new Promise<never>(() => {}) : once(out, 'error').then(([error]) => Promise.reject(error as Error))
  failed.catch(() => {})
  for (const part of parts) if (!out.write(part)) await Promise.race([once(out, 'drain'), failed])
  if (path === undefined) return
  out.end()
  await Promise.race([once(out, 'finish'), failed])
}
