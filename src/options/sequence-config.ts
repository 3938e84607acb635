import * as v from 'valibot'
import type { ElementType } from '../tensor/tensor.ts'
import type { DynamicBatchingConfig } from './batching.ts'
import type { FeedValue } from './model-signature.ts'
import { checkRules, declares, delayMs, optionsOf, wholeNumber } from './options-schema.ts'
import { dims, elementType } from './tensor-config.ts'

/** An input that tells the model about the request's sequence; Triton's `control_input`. */
export interface SequenceControl {
  /** The input of the control. */
  input: string
  /**
   * The value of the control. `'ready'` is false only for empty slots of a batch, which only the `direct` strategy has.
   */
  kind: 'start' | 'end' | 'ready' | 'correlationId'
  /** The type of the input, checked against the model. Default: the model's. */
  type?: ElementType
  /** The values for false and true. Default `[0, 1]`; not for `'correlationId'`. */
  values?: readonly [falseValue: number, trueValue: number]
}

/** A tensor that each request of a sequence passes to the next, kept in staging memory in between; Triton's `state`. */
export interface SequenceState {
  /** The input that receives the state. */
  input: string
  /** The output that holds the new state. Answers leave it out unless a request names it in `outputs`. */
  output: string
  /** The type of both, checked against the model. Default: the model's. */
  type?: ElementType
  /**
   * Dims of both, -1 for a variable one; without the batch dimension where `maxBatchSize` is not 0. Checked against the
   * model. Default: the model's.
   */
  dims?: readonly number[]
  /** State for the first request of a sequence, one row. Default: zeros, with 1 for each variable dimension. */
  initial?: FeedValue
}

/**
 * Strategy `direct`: each sequence has a slot of the batch until it ends; slots without a request run as empty rows.
 */
export interface DirectSequences {
  /** Milliseconds the oldest request may wait for `minimumSlotUtilization`. Default 0. */
  maxQueueDelayMs?: number
  /** Share of the slots at which a batch runs at once, 0 to 1. Default 0: no wait. */
  minimumSlotUtilization?: number
}

/** Strategy `oldest`: a batch takes requests in order of arrival, at most one per sequence. */
export interface OldestSequences {
  /** Most open sequences of the model, per instance; others wait until one ends. Default: no limit. */
  maxCandidateSequences?: number
  /** As in `dynamicBatching`, and overrides it, as the options below do. Default: that of `dynamicBatching`. */
  preferredBatchSize?: number | readonly number[]
  /** As in `dynamicBatching`. Default: that of `dynamicBatching`. */
  maxQueueDelayMs?: number
  /** As in `dynamicBatching`. Default: that of `dynamicBatching`. */
  preserveOrdering?: boolean
}

/** How requests of one sequence belong together; Triton's `sequence_batching`. At most one strategy may be given. */
export interface SequenceConfig {
  /** Milliseconds without a request after which a sequence ends. Default 1000. */
  maxSequenceIdleMs?: number
  /** Inputs that tell the model about the sequence of each request. Default: none. */
  controls?: readonly SequenceControl[]
  /** Tensors that each request of a sequence passes to the next. Default: none. */
  state?: readonly SequenceState[]
  /** Each sequence has its own slot of the batch. Default: `oldest`. */
  direct?: DirectSequences
  /**
   * Requests of different sequences share batches as they come. Default `{}`, unless `direct` is given: no limit of open
   * sequences.
   */
  oldest?: OldestSequences
}

const name = v.pipe(v.string(), v.minLength(1, 'the name of a tensor'))
const kinds = ['start', 'end', 'ready', 'correlationId'] as const
const count = wholeNumber(1)

/** Schema of `sequence`. */
export const sequenceSchema = declares<SequenceConfig>()({
  maxSequenceIdleMs: v.optional(
    v.pipe(
      v.number(),
      v.check((ms) => ms > 0 && ms < Infinity, 'milliseconds, more than 0 and finite'),
    ),
    1000,
  ),
  controls: v.optional(
    v.array(
      declares<SequenceControl>()({
        input: name,
        kind: v.picklist(kinds),
        type: v.optional(elementType),
        values: v.optional(v.tuple([v.number(), v.number()]), [0, 1]),
      }),
    ),
    [],
  ),
  state: v.optional(
    v.array(
      declares<SequenceState>()({
        input: name,
        output: name,
        type: v.optional(elementType),
        dims: v.optional(dims),
        initial: v.optional(v.unknown()),
      }),
    ),
    [],
  ),
  direct: v.optional(
    optionsOf({
      maxQueueDelayMs: v.optional(delayMs, 0),
      minimumSlotUtilization: v.optional(
        v.pipe(
          v.number(),
          v.check((share) => share >= 0 && share <= 1, 'a number from 0 to 1'),
        ),
        0,
      ),
    }),
  ),
  oldest: v.optional(
    optionsOf({
      maxCandidateSequences: v.optional(count),
      preferredBatchSize: v.optional(v.union([count, v.array(count)])),
      maxQueueDelayMs: v.optional(delayMs),
      preserveOrdering: v.optional(v.boolean()),
    }),
  ),
})

/** {@link SequenceConfig} with defaults in place. */
export type ResolvedSequence = v.InferOutput<typeof sequenceSchema>

/** A control with its values. */
export type ResolvedControl = ResolvedSequence['controls'][number]

/**
 * Checks that each kind of control is given at most once, each input is filled from one source, and there is at most
 * one strategy.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkSequence(
  model: string,
  { controls, state, direct, oldest }: ResolvedSequence,
  batching: DynamicBatchingConfig | null,
): void {
  const filled = [...controls, ...state].map(({ input }) => input)
  const isFilledBefore = (index: number) => filled.indexOf(filled[index]!) !== index
  for (const [index, { kind, input }] of controls.entries()) {
    const at = `sequence.controls[${index}]`
    const isGivenBefore = controls.findIndex((other) => other.kind === kind) !== index
    checkRules(model, [
      [isGivenBefore, `${at}.kind`, 'each kind once', kind],
      [isFilledBefore(index), `${at}.input`, 'an input of its own', input],
    ])
  }
  for (const [index, { input, output }] of state.entries()) {
    const at = `sequence.state[${index}]`
    const isGivenBefore = state.findIndex((other) => other.output === output) !== index
    checkRules(model, [
      [isFilledBefore(controls.length + index), `${at}.input`, 'an input of its own', input],
      [isGivenBefore, `${at}.output`, 'an output of its own', output],
    ])
  }
  if (direct === undefined) return
  const preferred = batching?.preferredBatchSize
  checkRules(model, [
    [oldest !== undefined, 'sequence.oldest', 'to be omitted beside direct', oldest],
    [preferred !== undefined, 'dynamicBatching.preferredBatchSize', 'to be omitted beside sequence.direct, whose minimumSlotUtilization says what is worth a run', preferred],
  ]) // prettier-ignore
}

/** The batching options, with those of the sequence strategy first. */
export function batchingOfSequences<B extends object>(
  batching: B,
  sequence: Pick<ResolvedSequence, 'direct' | 'oldest'> | null,
): B {
  if (sequence === null) return batching
  const { direct, oldest } = sequence
  if (direct !== undefined)
    return {
      __proto__: null,
      ...batching,
      maxQueueDelayMs: direct.minimumSlotUtilization === 0 ? 0 : direct.maxQueueDelayMs,
    }
  const said = Object.entries(oldest ?? {}).filter(
    ([option, value]) => option !== 'maxCandidateSequences' && value !== undefined,
  )
  return { __proto__: null, ...batching, ...Object.fromEntries(said) }
}

/** Batch sizes at which slots are dispatched: from `minimumSlotUtilization` up. */
export function slotSizes({ direct }: ResolvedSequence, maxBatchSize: number): number[] {
  const least = Math.max(1, Math.ceil((direct?.minimumSlotUtilization ?? 0) * maxBatchSize))
  return least === 1 || direct?.maxQueueDelayMs === 0
    ? []
    : Array.from({ length: maxBatchSize - least + 1 }, (_, index) => least + index)
}

/** Names of the inputs that a sequence fills. */
export function inputsOfSequence(sequence: Pick<ResolvedSequence, 'controls' | 'state'> | null): string[] {
  return sequence === null ? [] : [...sequence.controls, ...sequence.state].map(({ input }) => input)
}
