import { Option, type Command } from 'commander'
import { mulberry32 } from 'zerohop/internals'
import { SampleCycle, type SampleSource } from '../perf/input/sample-source.ts'
import { UniqueSamples } from '../perf/input/generated-data.ts'
import { inputsText } from '../perf/report/console-report.ts'
import type { InputLevels, PerfResult } from '../perf/result.ts'
import type { PerfContext, PerfExtension } from './perf-extension.ts'
import { measureLevels, type ReportOptions } from './perf-levels.ts'
import { samplesInMemory } from './perf-samples.ts'

/** More memory than caches of processors have. */
const beyondCaches = { fewest: 16, most: 4096, bytes: 128 * 2 ** 20 }

/** `--inputs`: one request again and again, and requests of which none comes twice. */
export const inputComparisons: PerfExtension = {
  addOptions: (command: Command) =>
    void command
      .optionsGroup('Answers:')
      .addOption(
        new Option(
          '--inputs <kind>',
          'ask the same again and again, never the same twice, or measure both, one after the other: what caches make of it',
        ).choices(['same', 'unique', 'both']),
      ),
  leader: 'inputs',
  // Files of levels would be written twice.
  unheard: ({ inputs, scenario }) =>
    inputs === 'both' && scenario === undefined ? ['latencyReportFile', 'profileExportFile'] : [],
  // In a scenario it is a setting of that.
  measures: ({ inputs, scenario }) => inputs !== undefined && scenario === undefined,
  measure,
}

async function measure(context: PerfContext): Promise<{ result: PerfResult; exitCode: number }> {
  const { options, target, settings, print } = context
  const { inputs, ...report } = options as unknown as ReportOptions & {
    readonly inputs: 'same' | 'unique' | 'both'
  }
  const { samples, areRandom } = await samplesInMemory(context, 'inputs', beyondCaches)
  const sources: Record<'same' | 'unique', () => SampleSource> = {
    same: () => new SampleCycle(samples.slice(0, 1)),
    // A cache may still have the answer to the first.
    unique: () =>
      new UniqueSamples(
        samples.length > 1 ? samples.slice(1) : samples,
        areRandom ? mulberry32(settings.seed + 1) : null,
      ),
  }
  const runs: InputLevels[] = []
  const measured: { result: PerfResult; exitCode: number }[] = []
  for (const kind of inputs === 'both' ? (['same', 'unique'] as const) : [inputs]) {
    const source = sources[kind]()
    print(`Inputs: ${kind}\n`)
    const own = await measureLevels({ ...context, target: { ...target, source } }, report)
    measured.push(own)
    runs.push({ inputs: kind, distinct: source.size, levels: own.result.levels })
    if (context.signal.aborted) break
  }
  const result: PerfResult = { ...measured.at(-1)!.result, inputs: runs }
  print(inputsText(result.mode, runs))
  return { result, exitCode: Math.max(...measured.map(({ exitCode }) => exitCode)) }
}
