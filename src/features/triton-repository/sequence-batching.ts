import type { SequenceConfig, SequenceControl, SequenceState } from '../../options/sequence-config.ts'
import type { ConfigFields } from './config-fields.ts'
import { elementTypes } from './data-types.ts'
import { defined } from './defined.ts'
import { readDelay } from './dynamic-batching.ts'
import { checkFileName } from './file-names.ts'
import { checkSize, type TensorPlan } from './tensor-plans.ts'

/** What `sequence_batching` says. */
export interface ReadSequence {
  readonly sequence: SequenceConfig
  /** First states that are in files, by their places among the states. */
  readonly initial: readonly { readonly state: number; readonly plan: TensorPlan }[]
}

const kinds = {
  CONTROL_SEQUENCE_START: 'start',
  CONTROL_SEQUENCE_END: 'end',
  CONTROL_SEQUENCE_READY: 'ready',
  CONTROL_SEQUENCE_CORRID: 'correlationId',
} as const

/** Reads `sequence_batching`, whose strategy is `direct` where none is said. */
export function readSequenceBatching(
  config: ConfigFields,
  maxBatchSize: number | undefined,
): ReadSequence | undefined {
  const batching = config.message('sequence_batching')
  if (batching === undefined) return undefined
  const idle = batching.integer('max_sequence_idle_microseconds')
  const states = batching.messages('state').map((state) => readState(state, maxBatchSize))
  const sequence = defined({
    maxSequenceIdleMs: idle === undefined || idle === 0 ? undefined : idle / 1000,
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
        control.fail(given[0]![0], 'to be left out for CONTROL_SEQUENCE_CORRID', given[0]![1])
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
    const most = oldest.integer('max_candidate_sequences', 0)
    const maxQueueDelayMs = readDelay(oldest, maxBatchSize)
    const preferred = oldest.integers('preferred_batch_size', 1)
    const preserveOrdering = oldest.boolean('preserve_ordering') || undefined
    oldest.finish()
    const maxCandidateSequences = most === undefined || most === 0 ? undefined : most
    return {
      oldest: defined({
        maxCandidateSequences,
        maxQueueDelayMs,
        preferredBatchSize: preferred.length === 0 ? undefined : preferred,
        preserveOrdering,
      }),
    }
  }
  if (direct === undefined) return { direct: {} }
  const maxQueueDelayMs = readDelay(direct, maxBatchSize)
  const [minimumSlotUtilization = 0] = direct.numbers('minimum_slot_utilization')
  direct.finish()
  if (!(minimumSlotUtilization >= 0 && minimumSlotUtilization <= 1))
    direct.fail('minimum_slot_utilization', 'a number from 0 to 1', minimumSlotUtilization)
  return { direct: defined({ maxQueueDelayMs, minimumSlotUtilization }) }
}
