import { availableCores } from '../config/available-cores.ts'
import type { ModelConfig, ModelOptions } from '../index.ts'
import type { Configuration } from './configuration.ts'
import type { FailedWord, MeasuringSettings } from './measuring-messages.ts'
import type { MeasuringGround } from './measuring-process.ts'
import type { DefaultFacts } from './state-file.ts'

/** Loads a model as it is without the tuner, to see what that comes to. */
export async function findDefaults(ground: MeasuringGround, config: ModelConfig, settings: MeasuringSettings, limitMs: number, signal: AbortSignal): Promise<{ readonly facts: DefaultFacts; readonly startMs: number } | FailedWord> {
  const startMs = ground.clock.nowMs()
  const process = ground.start(settings)
  const stop = () => void process.end()
  signal.addEventListener('abort', stop)
  try {
    const word = await process.ask({ type: 'load', name: 'model', config }, limitMs)
    if (word.type === 'failed') return word
    const { instances, maxBatchSize, isOnCpu, joining } = word
    return { facts: { configuration: defaultConfiguration(config, instances, maxBatchSize), isOnCpu, joining }, startMs: ground.clock.nowMs() - startMs }
  } finally {
    signal.removeEventListener('abort', stop)
    await process.end()
  }
}

function defaultConfiguration({ sessionOptions, dynamicBatching }: ModelOptions, instances: number, maxBatchSize: number): Configuration {
  const threads = sessionOptions?.intraOpNumThreads ?? Math.max(1, Math.floor(availableCores().usable / instances))
  const maxQueueDelayMs = dynamicBatching === undefined || dynamicBatching === false ? 0 : (dynamicBatching.maxQueueDelayMs ?? 0)
  return { instances, threads, maxBatchSize, maxQueueDelayMs }
}
