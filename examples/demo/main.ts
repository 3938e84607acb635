import { SingleBar, Presets } from 'cli-progress'
import { InferenceEngine, InferenceError, type Model } from 'zerohop'
import { decodeImage } from 'zerohop/image'
import { classifierOf, runJobs } from './classify.ts'
import { imageOptionsFor } from './image-input.ts'
import { parseOptions, readLabels } from './options.ts'
import type { DemoOptions } from './options.ts'
import { outcomeTable, stagingLines, summary } from './report.ts'
import { UsageError } from './usage-error.ts'

async function demo(options: DemoOptions): Promise<void> {
  const labels = readLabels(options.labels)
  if (labels === undefined) console.log('no --labels: the classes are shown by number')
  const engine = new InferenceEngine()
  try {
    await classifyWith(engine, options, labels)
  } finally {
    await engine.close()
  }
}

/** One whose shapes are fixed runs each image by itself: there is no batch that an image could wait for. */
async function loadClassifier(engine: InferenceEngine, { model: path, delay }: DemoOptions): Promise<Model> {
  try {
    return await engine.load('classifier', { path, dynamicBatching: { maxQueueDelayMs: delay } })
  } catch (error) {
    if (!(error instanceof InferenceError && error.argument === 'dynamicBatching.maxQueueDelayMs'))
      throw error
    return engine.load('classifier', { path })
  }
}

async function classifyWith(
  engine: InferenceEngine,
  options: DemoOptions,
  labels: string[] | undefined,
): Promise<void> {
  const model = await loadClassifier(engine, options)
  console.log(stagingLines(engine.capabilities()))
  const imageOptions = imageOptionsFor(model.metadata.inputs, options)
  const classify = classifierOf(model, (file) => decodeImage(file, imageOptions), labels)
  // Draws nothing where standard error is no terminal.
  const bar = new SingleBar(
    { format: '{bar} {value}/{total} images', clearOnComplete: true },
    Presets.shades_classic,
  )
  bar.start(options.files.length, 0)
  const started = performance.now()
  const outcomes = await runJobs(options.files, options.jobs, classify, () => bar.increment()).finally(() =>
    bar.stop(),
  )
  const elapsedMs = performance.now() - started
  console.log(outcomeTable(outcomes, labels, options.all ? Infinity : undefined))
  console.log(summary(outcomes, options.jobs, elapsedMs, model.stats().batchStats, labels))
  if (outcomes.some((outcome) => 'error' in outcome)) process.exitCode = 1
}

try {
  await demo(parseOptions(process.argv.slice(2)))
} catch (error) {
  if (error instanceof InferenceError) console.error(`${error.code}: ${error.message}`)
  else if (error instanceof UsageError) console.error(`error: ${error.message}`)
  else throw error
  process.exitCode = 1
}
