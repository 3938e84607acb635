import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import type { ElementType } from '../tensor.ts'
import type { FeedValue } from './model-signature.ts'
import { optionsOf, readOptions } from './plain-options.ts'
import { dims, elementType } from './tensor-config.ts'

/** What an input tells the model of the sequence that a request belongs to; Triton's `control_input`. */
export interface SequenceControl {
  input: string
  /** `'ready'` is always true: a batch has no empty places here. */
  kind: 'start' | 'end' | 'ready' | 'correlationId'
  /** The type of the input, checked against the model. Default: the model's. */
  type?: ElementType
  /** What stands for false and true. Default `[0, 1]`; not for `'correlationId'`. */
  values?: readonly [falseValue: number, trueValue: number]
}

/** A tensor that one request of a sequence hands on to the next; Triton's `state`. */
export interface SequenceState {
  /** The input that takes it. */
  input: string
  /** The output that gives it. Answers leave it out. */
  output: string
  /** The type of both, checked against the model. Default: the model's. */
  type?: ElementType
  /** Dims of both, without the batch dimension where `maxBatchSize` is not 0, -1 for a variable one; checked against the model. Default: the model's. */
  dims?: readonly number[]
  /** What the first request of a sequence gets. Default: zeros, with 1 for each variable dimension. */
  initial?: FeedValue
}

/** How requests of one sequence belong together; Triton's `sequence_batching`. */
export interface SequenceConfig {
  /** How long a sequence may be without a request before it is forgotten, in milliseconds. Default 1000. */
  maxIdleMs?: number
  controls?: readonly SequenceControl[]
  states?: readonly SequenceState[]
}

/** The sequence of one request; see {@link SequenceConfig}. */
export interface SequenceOptions {
  /** Which sequence: not 0 and not ''. */
  id: number | bigint | string
  /** Whether the sequence begins with this request: what was kept under its id is forgotten. Default `false`. */
  start?: boolean
  /** Whether it ends with this request. Default `false`. */
  end?: boolean
}

/** A control with its values. */
export type ResolvedControl = Required<Omit<SequenceControl, 'type'>> & { readonly type?: ElementType | undefined }

/** With every default in place. */
export interface ResolvedSequence {
  readonly maxIdleMs: number
  readonly controls: readonly ResolvedControl[]
  readonly states: readonly SequenceState[]
}

const name = v.pipe(v.string(), v.minLength(1, 'the name of a tensor'))
const kinds = ['start', 'end', 'ready', 'correlationId'] as const

/** Schema of `sequence`. */
export const sequenceSchema = optionsOf({
  maxIdleMs: v.optional(v.pipe(v.number(), v.finite(), v.minValue(0)), 1000),
  controls: v.optional(
    v.array(optionsOf({ input: name, kind: v.picklist(kinds), type: v.optional(elementType), values: v.optional(v.tuple([v.number(), v.number()]), [0, 1]) })),
    [],
  ),
  states: v.optional(v.array(optionsOf({ input: name, output: name, type: v.optional(elementType), dims: v.optional(dims), initial: v.optional(v.unknown()) })), []),
})

/**
 * Checks that each kind of control is there once, and each input is filled by one thing.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkSequence(model: string, { controls, states }: ResolvedSequence): void {
  const wrong = (option: string, expected: string, received: unknown) =>
    invalidArgument(`sequence.${option}`, expected, received, { code: 'ERR_MODEL_CONFIG', model })
  const filled = new Set<string>()
  for (const [index, { kind, input }] of controls.entries()) {
    if (controls.findIndex((other) => other.kind === kind) !== index) throw wrong(`controls[${index}].kind`, 'each kind once', kind)
    if (filled.has(input)) throw wrong(`controls[${index}].input`, 'an input of its own', input)
    filled.add(input)
  }
  for (const [index, { input, output }] of states.entries()) {
    if (filled.has(input)) throw wrong(`states[${index}].input`, 'an input of its own', input)
    if (states.findIndex((other) => other.output === output) !== index) throw wrong(`states[${index}].output`, 'an output of its own', output)
    filled.add(input)
  }
}

/**
 * Checks the sequence of one request.
 *
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function checkSequenceOptions(model: string, value: unknown): SequenceOptions {
  const { id, start, end } = readOptions('options.sequence', value, ['id', 'start', 'end'], { model })
  const wrong = (name: string, expected: string, received: unknown) => invalidArgument(`options.sequence.${name}`, expected, received, { model })
  const isId = typeof id === 'string' ? id !== '' : typeof id === 'bigint' ? id !== 0n : Number.isSafeInteger(id) && id !== 0
  if (!isId) throw wrong('id', "a whole number that is not 0, or a string that is not ''", id)
  if (start !== undefined && typeof start !== 'boolean') throw wrong('start', 'true or false', start)
  if (end !== undefined && typeof end !== 'boolean') throw wrong('end', 'true or false', end)
  return { id: id as SequenceOptions['id'], start: start === true, end: end === true }
}
