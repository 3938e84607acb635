import type { WarmupSample } from '../../options/model-config.ts'
import type { Feeds } from '../../options/model-signature.ts'
import type { ConfigFields } from './config-fields.ts'
import { elementTypes } from './data-types.ts'
import { checkFileName } from './file-names.ts'
import { checkSize, makeTensorFeed, type TensorPlan } from './tensor-plans.ts'

/** One `model_warmup`, before its files are read. */
export interface WarmupPlan {
  /** Among the samples of the configuration. */
  readonly place: number
  readonly count: number
  readonly inputs: readonly (readonly [name: string, plan: TensorPlan])[]
}

/**
 * Reads `model_warmup`. A sample of a batch size is run as a batch of so many equal rows; without batches as often, one by one.
 *
 * @param maxBatchSize `undefined` where it is to be found from the model.
 */
export function readModelWarmup(config: ConfigFields, maxBatchSize: number | undefined): WarmupPlan[] {
  return config.messages('model_warmup').flatMap((sample, place) => {
    const name = sample.string('name')
    const batchSize = sample.integer('batch_size') ?? 0
    const count = sample.integer('count') || 1
    const inputs = sample.messageMap<string>('inputs')
    sample.finish()
    if (!name) sample.fail('name', 'a name of the sample', name)
    if (batchSize === 0) {
      sample.note(sample.has('batch_size') ? 'batch_size' : 'name', 'a sample of batch size 0 is not run')
      return []
    }
    if (maxBatchSize !== undefined && maxBatchSize > 0 && batchSize > maxBatchSize) {
      sample.fail('batch_size', `at most ${maxBatchSize} (max_batch_size)`, batchSize)
    }
    if (inputs.length === 0) sample.fail('inputs', 'every input of the model', 'none')
    const rows = maxBatchSize === 0 ? null : batchSize
    const plans = inputs.map(([input, fields]) => [input, readInput(input, fields, rows)] as const)
    return [{ place, count: rows === null ? count * batchSize : count, inputs: plans }]
  })
}

function readInput(name: string, fields: ConfigFields, rows: number | null): TensorPlan {
  const type = fields.enumerator('data_type')
  const dims = fields.integers('dims')
  const file = fields.string('input_data_file')
  const zero = fields.boolean('zero_data')
  const random = fields.boolean('random_data')
  fields.finish()
  if (type === undefined || type === 'TYPE_INVALID')
    fields.fail('data_type', `the type of input '${name}', such as TYPE_FP32`, type)
  if (dims.some((dim) => dim < 1))
    fields.fail('dims', 'dims of at least 1, without the batch dimension', dims)
  const data = file
    ? { folder: 'warmup', file: checkFileName(fields, 'input_data_file', file) }
    : zero
      ? 'zero'
      : random
        ? 'random'
        : null
  if (data === null) return fields.fail('zero_data', 'true, or random_data, or an input_data_file', zero)
  const plan: TensorPlan = { fields, field: 'input_data_file', type: elementTypes[type]!, dims, rows, data }
  checkSize(plan)
  return plan
}

/**
 * Makes the samples; files are in `warmup/` of the model's folder.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for a file that does not fit.
 */
export function makeSamples(modelFolder: string, plans: readonly WarmupPlan[]): Promise<WarmupSample[]> {
  return Promise.all(
    plans.map(async ({ count, inputs }) => {
      const feeds = await Promise.all(
        inputs.map(async ([name, plan]) => [name, await makeTensorFeed(modelFolder, plan)] as const),
      )
      return { count, feeds: Object.fromEntries(feeds) as Feeds }
    }),
  )
}
