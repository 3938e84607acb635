import type { DynamicBatchingConfig, QueuePolicy } from '../../options/batching.ts'
import type { SequenceConfig, SequenceControl, SequenceState } from '../../options/sequence-config.ts'
import { defined } from '../../options/plain-options.ts'
import type { ConfigFields } from './config-fields.ts'
import { checkFileName, checkSize, elementTypes, type TensorPlan } from './config-tensors.ts'

/**
 * Reads `dynamic_batching`. Without it requests are still batched if the model allows it, as in a Triton that
 * completes configurations.
 *
 * @param maxBatchSize `undefined` if it is to be derived from the model.
 */
export function readDynamicBatching(
  config: ConfigFields,
  maxBatchSize: number | undefined,
): DynamicBatchingConfig | undefined {
  const batching = config.message('dynamic_batching')
  if (batching === undefined) return undefined
  const policy = batching.message('default_queue_policy')
  const read = defined({
    ...readSizeAndDelay(batching, maxBatchSize),
    ...readPriorities(batching),
    defaultQueuePolicy: policy && readQueuePolicy(policy),
  })
  batching.finish()
  return read
}

/** Reads what `dynamic_batching` and the strategy `oldest` have in common. */
function readSizeAndDelay(batching: ConfigFields, maxBatchSize: number | undefined) {
  const preferred = batching.integers('preferred_batch_size', 1)
  return {
    preferredBatchSize: preferred.length === 0 ? undefined : preferred,
    maxQueueDelayMs: readDelay(batching, maxBatchSize),
    preserveOrdering: batching.boolean('preserve_ordering') || undefined,
  }
}

/** A delay only if a batch may have several requests. */
function readDelay(batching: ConfigFields, maxBatchSize: number | undefined): number | undefined {
  const delayMs = milliseconds(batching, 'max_queue_delay_microseconds')
  if (maxBatchSize !== 0 || !delayMs) return delayMs
  batching.note(
    'max_queue_delay_microseconds',
    'requests are not joined while max_batch_size is 0, so that none waits for another',
  )
  return undefined
}

function readPriorities(
  batching: ConfigFields,
): Pick<DynamicBatchingConfig, 'priorityLevels' | 'defaultPriorityLevel' | 'priorityQueuePolicy'> {
  const priorityLevels = batching.integer('priority_levels') || undefined
  const defaultPriorityLevel = batching.integer('default_priority_level') || undefined
  const policies = batching
    .messageMap<number>('priority_queue_policy')
    .map(([level, policy]) => [level, readQueuePolicy(policy)] as const)
  if (priorityLevels === undefined) {
    const needless = (['default_priority_level', 'priority_queue_policy'] as const).filter((name) =>
      batching.has(name),
    )
    for (const name of needless) batching.note(name, 'without priority_levels there is one level')
    return {}
  }
  if (defaultPriorityLevel === undefined || defaultPriorityLevel > priorityLevels) {
    batching.fail(
      'default_priority_level',
      `a level from 1 to ${priorityLevels} (priority_levels)`,
      defaultPriorityLevel,
    )
  }
  const strange = policies.find(([level]) => level < 1 || level > priorityLevels)
  if (strange !== undefined)
    batching.fail('priority_queue_policy', `levels from 1 to ${priorityLevels} (priority_levels)`, strange[0])
  return {
    priorityLevels,
    defaultPriorityLevel,
    ...(policies.length === 0 ? {} : { priorityQueuePolicy: Object.fromEntries(policies) }),
  }
}

function readQueuePolicy(policy: ConfigFields): QueuePolicy {
  const read = defined({
    timeoutAction: policy.enumerator<'REJECT' | 'DELAY'>('timeout_action'),
    defaultTimeoutMs: milliseconds(policy, 'default_timeout_microseconds'),
    allowTimeoutOverride: policy.boolean('allow_timeout_override'),
    maxQueueSize: policy.integer('max_queue_size'),
  })
  policy.finish()
  return read
}

/** The longest timer, some 24 days. */
const longestMicroseconds = (2 ** 31 - 1) * 1000

/** A field of microseconds, in milliseconds. */
function milliseconds(fields: ConfigFields, name: string): number | undefined {
  const microseconds = fields.integer(name, 0, longestMicroseconds)
  return microseconds === undefined ? undefined : microseconds / 1000
}

/** The content of `sequence_batching`. */
export interface ReadSequence {
  readonly sequence: SequenceConfig
  /** Initial states in files, by the index of the state. */
  readonly initial: readonly { readonly state: number; readonly plan: TensorPlan }[]
}

const kinds = {
  CONTROL_SEQUENCE_START: 'start',
  CONTROL_SEQUENCE_END: 'end',
  CONTROL_SEQUENCE_READY: 'ready',
  CONTROL_SEQUENCE_CORRID: 'correlationId',
} as const

/** Reads `sequence_batching`. The default strategy is `direct`. */
export function readSequenceBatching(
  config: ConfigFields,
  maxBatchSize: number | undefined,
): ReadSequence | undefined {
  const batching = config.message('sequence_batching')
  if (batching === undefined) return undefined
  const idle = batching.integer('max_sequence_idle_microseconds') || undefined
  const states = batching.messages('state').map((state) => readState(state, maxBatchSize))
  const sequence = defined({
    maxSequenceIdleMs: idle && idle / 1000,
    controls: batching.messages('control_input').flatMap(readControls),
    state: states.map(({ state }) => state),
    ...readStrategy(batching, maxBatchSize),
  })
  batching.finish({
    refused: { iterative_sequence: 'Every request is run once: send the next from the application' },
  })
  return {
    sequence,
    initial: states.flatMap(({ plan }, state) => (plan === undefined ? [] : [{ state, plan }])),
  }
}

function readControls(input: ConfigFields): SequenceControl[] {
  const name = input.string('name')
  if (!name) input.fail('name', 'the name of an input of the model', name)
  const controls = input.messages('control')
  input.finish()
  if (controls.length !== 1)
    input.fail('control', 'one control', controls.length, 'Give one control_input for each')
  return controls.map((control) => {
    const kind = kinds[control.enumerator<keyof typeof kinds>('kind') ?? 'CONTROL_SEQUENCE_START']
    const lists = [
      ['int32_false_true', control.integers('int32_false_true'), 'int32'],
      ['fp32_false_true', control.numbers('fp32_false_true'), 'float32'],
      ['bool_false_true', control.booleans('bool_false_true').map(Number), 'bool'],
    ] as const
    const given = lists.filter(([field]) => control.has(field))
    const type = control.enumerator('data_type')
    control.finish()
    if (kind === 'correlationId') {
      if (given.length > 0)
        control.fail(given[0]![0], 'to be omitted for CONTROL_SEQUENCE_CORRID', given[0]![1])
      if (!['TYPE_UINT64', 'TYPE_INT64', 'TYPE_UINT32', 'TYPE_INT32', 'TYPE_STRING'].includes(type ?? '')) {
        control.fail('data_type', 'TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 or TYPE_STRING', type)
      }
      return { input: name, kind, type: elementTypes[type!]! }
    }
    const [field, values, valueType] = given[0] ?? []
    if (given.length !== 1)
      control.fail(
        'int32_false_true',
        'one of int32_false_true, fp32_false_true and bool_false_true',
        given.map(([each]) => each),
      )
    if (values!.length !== 2) control.fail(field!, 'two values, for false and for true', values)
    if (!values!.every(Number.isFinite)) control.fail(field!, 'finite numbers', values)
    return { input: name, kind, type: valueType!, values: [values![0]!, values![1]!] }
  })
}

function readState(
  state: ConfigFields,
  maxBatchSize: number | undefined,
): { state: SequenceState; plan?: TensorPlan } {
  const input = state.string('input_name')
  const output = state.string('output_name')
  const type = state.enumerator('data_type')
  const dims = state.integers('dims')
  const initials = state.messages('initial_state')
  for (const name of ['use_same_buffer_for_input_output', 'use_growable_memory'] as const) {
    if (state.boolean(name) === true)
      state.note(name, 'each request gets the tensor that the one before has given')
  }
  state.finish()
  if (!input) state.fail('input_name', 'the name of an input of the model', input)
  if (!output) state.fail('output_name', 'the name of an output of the model', output)
  if (type === undefined || type === 'TYPE_INVALID')
    state.fail('data_type', 'a type, such as TYPE_FP32', type)
  if (dims.length === 0) state.fail('dims', 'at least one dimension, -1 for a variable one', [])
  if (dims.some((dim) => dim < 1 && dim !== -1))
    state.fail('dims', 'dims of at least 1, or -1 for a variable one', dims)
  if (initials.length > 1) state.fail('initial_state', 'one initial state', initials.length)
  const [initial] = initials
  return {
    state: { input, output, type: elementTypes[type]!, dims },
    ...(initial === undefined ? {} : { plan: readInitial(initial, type, dims, maxBatchSize) }),
  }
}

function readInitial(
  initial: ConfigFields,
  stateType: string,
  stateDims: readonly number[],
  maxBatchSize: number | undefined,
): TensorPlan {
  const type = initial.enumerator('data_type')
  const dims = initial.integers('dims')
  const file = initial.string('data_file')
  initial.string('name')
  const zero = initial.boolean('zero_data')
  initial.finish()
  if (type !== stateType) initial.fail('data_type', `${stateType}, as the state has it`, type)
  const fits =
    dims.length === stateDims.length &&
    dims.every((dim, axis) => dim >= 1 && (stateDims[axis] === -1 || stateDims[axis] === dim))
  if (!fits)
    initial.fail('dims', `dims of at least 1 that fit those of the state, [${stateDims.join(', ')}]`, dims)
  if (!zero && !file) initial.fail('zero_data', 'true, or a data_file', zero)
  const data = file ? { folder: 'initial_state', file: checkFileName(initial, 'data_file', file) } : 'zero'
  const plan: TensorPlan = {
    fields: initial,
    field: 'data_file',
    type: elementTypes[type!]!,
    dims,
    rows: maxBatchSize === 0 ? null : 1,
    data,
  }
  checkSize(plan)
  return plan
}

function readStrategy(
  batching: ConfigFields,
  maxBatchSize: number | undefined,
): Pick<SequenceConfig, 'direct' | 'oldest'> {
  const direct = batching.message('direct')
  const oldest = batching.message('oldest')
  if (oldest !== undefined) {
    const maxCandidateSequences = oldest.integer('max_candidate_sequences', 0) || undefined
    const shared = readSizeAndDelay(oldest, maxBatchSize)
    oldest.finish()
    return { oldest: defined({ maxCandidateSequences, ...shared }) }
  }
  if (direct === undefined) return { direct: {} }
  const maxQueueDelayMs = readDelay(direct, maxBatchSize)
  const [minimumSlotUtilization = 0] = direct.numbers('minimum_slot_utilization')
  direct.finish()
  if (!(minimumSlotUtilization >= 0 && minimumSlotUtilization <= 1))
    direct.fail('minimum_slot_utilization', 'a number from 0 to 1', minimumSlotUtilization)
  return { direct: defined({ maxQueueDelayMs, minimumSlotUtilization }) }
}
