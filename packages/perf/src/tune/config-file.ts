import type { InstanceKind } from 'zerohop'
import { optionsFor, type Configuration } from './configuration.ts'
import type { TuneSettings } from './tune-settings.ts'

/** The file that `engine.load()` takes, as JSON: the model's path, and its options with those that were found. */
export function configJson(
  configuration: Configuration,
  { path, options }: Pick<TuneSettings, 'path' | 'options'>,
  kind: InstanceKind,
): string {
  return `${JSON.stringify({ path, ...optionsFor(configuration, options, kind) }, null, 2)}\n`
}

const kinds: Readonly<Record<string, string>> = { auto: 'KIND_AUTO', cpu: 'KIND_CPU', cuda: 'KIND_GPU' }

/**
 * What a repository's `config.pbtxt` has to say of a configuration; inputs and outputs are those of the model's file.
 *
 * @returns `null` for a kind of instances that Triton has none of.
 */
export function configText(
  name: string,
  { instances, threads, maxBatchSize, maxQueueDelayMs }: Configuration,
  kind: InstanceKind,
): string | null {
  const itsKind = kinds[kind]
  if (itsKind === undefined) return null
  const lines = [
    `name: ${JSON.stringify(name)}`,
    'platform: "onnxruntime_onnx"',
    `max_batch_size: ${maxBatchSize}`,
    `instance_group [ { kind: ${itsKind}, count: ${instances} } ]`,
    ...(maxBatchSize > 1
      ? [`dynamic_batching { max_queue_delay_microseconds: ${Math.round(maxQueueDelayMs * 1000)} }`]
      : []),
    `parameters { key: "intra_op_thread_count" value { string_value: "${threads}" } }`,
  ]
  return `${lines.join('\n')}\n`
}
