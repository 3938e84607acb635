import { maxThreads } from '../../options/check-session-options.ts'
import type { MemoryOptions, RunOptions, SessionOptions } from '../../options/model-config.ts'
import type { ConfigFields } from './config-fields.ts'
import { defined } from './defined.ts'
import type { GroupKind } from './instance-groups.ts'

/** What the `parameters` of Triton's backend for ONNX Runtime come to. */
export interface BackendParameters {
  readonly sessionOptions: SessionOptions
  readonly memory: MemoryOptions
  readonly runOptions: RunOptions
  /** All of them, as they stand. */
  readonly parameters: Readonly<Record<string, string>>
}

const initializers = 'session.use_device_allocator_for_initializers'
const shrinkage = 'memory.enable_memory_arena_shrinkage'

/** Of the CUDA provider, where they are deprecated. */
const cudaParameters = [
  'cudnn_conv_algo_search',
  'gpu_mem_limit',
  'arena_extend_strategy',
  'do_copy_in_default_stream',
]

/** Reads `parameters`. One that the backend does not know is noted: it is handed on to clients that ask, as by Triton. */
export function readParameters(config: ConfigFields, kinds: ReadonlySet<GroupKind>): BackendParameters {
  const given = readGiven(config)
  const wholeNumber = (key: string, most: number) => {
    const entry = given.get(key)
    if (entry === undefined) return undefined
    const value = /^\d+$/.test(entry.value) ? Number(entry.value) : Infinity
    return value <= most
      ? value
      : entry.fields.fail(
          'string_value',
          `${most === 1 ? '0 or 1' : `a whole number from 0 to ${most}`} for ${key}`,
          entry.value,
        )
  }
  const flag = (key: string) => {
    const entry = given.get(key)
    if (entry === undefined) return undefined
    if (/^(?:1|true)$/i.test(entry.value)) return true
    return /^(?:0|false)$/i.test(entry.value)
      ? false
      : entry.fields.fail('string_value', `true or false for ${key}`, entry.value)
  }
  const allocator = flag(initializers)
  const arena = flag('enable_mem_arena')
  const shrink = given.get(shrinkage)
  if (shrink !== undefined) checkShrinkage(shrink.fields, shrink.value, arena, kinds)
  const read = {
    sessionOptions: defined({
      intraOpNumThreads: wholeNumber('intra_op_thread_count', maxThreads) || undefined,
      interOpNumThreads: wholeNumber('inter_op_thread_count', maxThreads) || undefined,
      executionMode: wholeNumber('execution_mode', 1) === 1 ? ('parallel' as const) : undefined,
      enableMemPattern: flag('enable_mem_pattern'),
      extra: allocator === undefined ? undefined : { [initializers]: allocator ? '1' : '0' },
    }),
    memory: defined({ arena }),
    runOptions: shrink === undefined ? {} : { extra: { [shrinkage]: shrink.value } },
    parameters: valuesOf(given),
  }
  for (const [key, { fields, value }] of given) judgeOther(config, key, value, fields, kinds)
  return read
}

interface GivenParameter {
  readonly fields: ConfigFields
  readonly value: string
}

function readGiven(config: ConfigFields): Map<string, GivenParameter> {
  const given = new Map(
    config
      .messageMap<string>('parameters')
      .map(([key, fields]) => [key, { fields, value: fields.string('string_value') ?? '' }]),
  )
  for (const { fields } of given.values()) fields.finish()
  return given
}

function valuesOf(given: ReadonlyMap<string, GivenParameter>): Record<string, string> {
  return Object.fromEntries([...given].map(([key, { value }]) => [key, value]))
}

/** The `parameters` of an ensemble, which has no backend: they are for clients. */
export function readEnsembleParameters(config: ConfigFields): Record<string, string> {
  return valuesOf(readGiven(config))
}

/** ONNX Runtime fails every run that is to shrink an arena which there is not. */
function checkShrinkage(
  fields: ConfigFields,
  value: string,
  arena: boolean | undefined,
  kinds: ReadonlySet<GroupKind>,
): void {
  const wrong = (expected: string) => fields.fail('string_value', `${expected} for ${shrinkage}`, value)
  if (!/^(?:cpu|gpu):\d+(?:;(?:cpu|gpu):\d+)*$/.test(value)) wrong('devices, such as cpu:0;gpu:0,')
  const devices = value.split(';')
  if (devices.some((device) => device.startsWith('cpu:') && device !== 'cpu:0'))
    wrong('cpu:0, as there is one arena for the CPU,')
  if (arena === false && devices.includes('cpu:0')) wrong('no cpu:0 beside enable_mem_arena 0')
  const mayBeGpu = kinds.has('KIND_GPU') || kinds.has('KIND_AUTO')
  if (!mayBeGpu && devices.some((device) => device.startsWith('gpu:')))
    wrong('no GPU, as no instance is on one,')
}

const backendKeys = new Set([
  'intra_op_thread_count', 'inter_op_thread_count', 'execution_mode', 'enable_mem_pattern', 'enable_mem_arena', initializers, shrinkage,
]) // prettier-ignore

function judgeOther(
  config: ConfigFields,
  key: string,
  value: string,
  fields: ConfigFields,
  kinds: ReadonlySet<GroupKind>,
): void {
  if (backendKeys.has(key)) return
  if (key === 'TRITON_BATCH_STRATEGY_PATH') {
    fields.fail(
      'string_value',
      `${key} to be left out, as it is not supported`,
      value,
      'Batches are formed by dynamic_batching alone',
    )
  }
  const isCuda = cudaParameters.includes(key)
  if (isCuda && kinds.has('KIND_GPU')) {
    const hint =
      "Give it among the parameters of an optimization.execution_accelerators.gpu_execution_accelerator of name 'cuda'"
    fields.fail('string_value', `${key} to be left out, as it is not supported here`, value, hint)
  }
  config.note(
    'parameters',
    isCuda
      ? `'${key}' is for GPUs`
      : `'${key}' is no parameter of ONNX Runtime's backend: clients are told it, and it changes nothing`,
  )
}
