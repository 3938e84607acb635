import { Command } from 'commander'
import { inputShapes } from '../perf/input/input-shapes.ts'
import { generatedFeed } from '../perf/input/generated-data.ts'
import { SampleCycle } from '../perf/input/sample-cycle.ts'
import { randomNumbers } from '../perf/load/random-numbers.ts'
import { openTarget } from '../perf/open-target.ts'
import { runLevels } from '../perf/perf-run.ts'
import type { PerfContext, PerfExtension, PerfOptions } from './perf-extension.ts'
import { addMeasureOptions, measureSettings, type MeasureOptions } from './perf-measure-options.ts'

/** What is added from files of their own. */
const extensions: readonly PerfExtension[] = []

interface CommandLine extends MeasureOptions {
  readonly modelName: string
}

/** `zerohop perf -m model.onnx`: what a model gives under load. */
export const perf = build()

function build(): Command {
  const command = new Command('perf')
    .description('measure throughput and latency of a model, in this process, with the options and the output of perf_analyzer')
    .requiredOption('-m, --model-name <path>', "a model file, the folder of a repository's model, or its name beside --model-repository")
  addMeasureOptions(command)
  for (const extension of extensions) extension.addOptions(command)
  return command.action((options: CommandLine & PerfOptions) => measureModel(options, command))
}

async function measureModel(options: CommandLine & PerfOptions, command: Command): Promise<void> {
  const settings = measureSettings(options, null, command)
  const opened = await openTarget({ model: options.modelName })
  try {
    const random = randomNumbers(settings.seed)
    const data = { kind: 'random', stringLength: 128, stringData: null } as const
    const feeds = Object.fromEntries(inputShapes(opened.model.metadata).map((input) => [input.name, generatedFeed(input, 1, data, random)]))
    const target = { model: opened.model, source: new SampleCycle([{ feeds, rows: 1 }]), machine: opened.machine }
    const context: PerfContext = { options, opened, target, settings, shown: options, signal: new AbortController().signal, hooks: {}, print: (text) => void process.stdout.write(text) }
    const measuring = extensions.find((extension) => extension.measures?.(options) === true)
    const { result, exitCode } = measuring === undefined ? { result: await runLevels(target, settings, options), exitCode: undefined } : await measuring.measure!(context)
    if (measuring === undefined) context.print(`${JSON.stringify(result.levels, null, 2)}\n`)
    for (const extension of extensions) await extension.report?.(result, context)
    if (exitCode !== undefined) process.exitCode = exitCode
  } finally {
    await opened.engine.destroy()
  }
}
