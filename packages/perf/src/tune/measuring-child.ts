// A program that loads and measures models for its parent process.
import { InferenceEngine, InferenceError, type Model } from 'zerohop'
import type { SampleSource } from '../perf/input/sample-source.ts'
import { measureLoad, requestSource } from './measure-load.ts'
import type {
  LoadedWord,
  LoadTask,
  MeasuringSettings,
  MeasuringTask,
  MeasuringWord,
} from './measuring-process.ts'

interface Loaded {
  readonly model: Model
  readonly source: SampleSource
}

const { requests, engine: options } = JSON.parse(process.argv[2]!) as MeasuringSettings
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL')) // the parent has gone
process.on('SIGINT', () => {}) // Ctrl-C reaches the whole process group, but the parent decides when this process ends

const engine = new InferenceEngine(options)
const loaded = new Map<string, Loaded>()

async function load({ name, config }: LoadTask): Promise<LoadedWord> {
  const model = await engine.load(name, config)
  const { metadata } = model
  loaded.set(name, { model, source: await requestSource(metadata, config, requests) })
  const { maxBatchSize, joining, executionProviders } = metadata
  const isOnCpu = executionProviders.every(({ name: provider, used }) => !used || provider === 'cpu')
  return {
    type: 'loaded',
    instances: model.stats().instanceCount,
    maxBatchSize,
    joining: joining.reason,
    isOnCpu,
  }
}

async function answerTo(task: MeasuringTask): Promise<MeasuringWord> {
  if (task.type === 'load') return load(task)
  const { model, source } = loaded.get(task.name)!
  if (task.type === 'measure') return measureLoad(model, source, task)
  loaded.delete(task.name)
  await model.unload()
  return { type: 'unloaded' }
}

process.on('message', (task: MeasuringTask) => {
  answerTo(task)
    .catch((error: unknown): MeasuringWord => {
      if (error instanceof InferenceError) return { type: 'failed', code: error.code, message: error.message }
      throw error
    })
    .then((word) => process.send!(word))
})
