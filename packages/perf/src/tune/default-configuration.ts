import { availableCores } from 'zerohop/internals'
import { InferenceError, type ModelConfig, type ModelOptions } from 'zerohop'
import type { Configuration } from './configuration.ts'
import type { MeasuringSettings } from './measuring-messages.ts'
import type { MeasuringGround } from './measuring-process.ts'
import type { DefaultFacts } from './state-file.ts'

/** What a model comes to, and how long it took until it was loaded. */
interface FoundDefaults {
  readonly facts: DefaultFacts
  readonly startMs: number
}

/**
 * Loads a model as it is without the tuner, to see what that comes to; `null` where there was no time for it, or nobody wants it any more.
 *
 * @throws InferenceError as `engine.load()`.
 */
export async function findDefaults(
  ground: MeasuringGround,
  config: ModelConfig,
  settings: MeasuringSettings,
  limitMs: number,
  signal: AbortSignal,
): Promise<FoundDefaults | null> {
  const startMs = ground.clock.nowMs()
  const process = ground.start(settings)
  const stop = () => void process.end()
  signal.addEventListener('abort', stop)
  try {
    const word = await process.ask({ type: 'load', name: 'model', config }, limitMs)
    if (signal.aborted) return null
    if (word.type === 'failed') {
      if (word.code === 'ERR_TOO_LONG') return null
      throw new InferenceError(word.code === 'ERR_CRASHED' ? 'ERR_MODEL_LOAD' : word.code, word.message)
    }
    const { instances, maxBatchSize, isOnCpu, joining } = word
    return {
      facts: { configuration: defaultConfiguration(config, instances, maxBatchSize), isOnCpu, joining },
      startMs: ground.clock.nowMs() - startMs,
    }
  } finally {
    signal.removeEventListener('abort', stop)
    await process.end()
  }
}

function defaultConfiguration(
  { sessionOptions, dynamicBatching }: ModelOptions,
  instances: number,
  maxBatchSize: number,
): Configuration {
  const threads =
    sessionOptions?.intraOpNumThreads ?? Math.max(1, Math.floor(availableCores().usable / instances))
  const { maxQueueDelayMs = 0, maxBatchCost } =
    dynamicBatching === undefined || dynamicBatching === false ? {} : dynamicBatching
  return {
    instances,
    threads,
    maxBatchSize,
    maxQueueDelayMs,
    ...(maxBatchCost === undefined ? {} : { maxBatchCost }),
  }
}
