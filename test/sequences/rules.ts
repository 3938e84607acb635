import type { ModelOptions, SequenceConfig } from '../../src/index.ts'

/** A call for a request. Its name is a letter for the sequence and a number: `B2` is the second that is sent of B. */
export interface Call {
  readonly name: string
  /** In ticks. */
  readonly at?: number
  readonly start?: boolean
  readonly end?: boolean
  /** In ticks. */
  readonly timeout?: number
  /** Whether its signal fires right after the call. */
  readonly cancelled?: boolean
  /** What its sum has to be, where it is not that of all before it in its sequence. */
  readonly sum?: number
}

/** One rule of Triton's sequence batcher, by what comes of some calls. */
export interface Rule {
  readonly rule: string
  readonly max?: number
  readonly instances?: number
  /** Without times: those are ticks. */
  readonly sequence?: SequenceConfig
  readonly calls: readonly Call[]
  /** The requests of each run by their places, '-' for an empty row; of several at the same time in any order. */
  readonly batches: readonly string[]
  /** Codes of errors by name. */
  readonly rejected?: Readonly<Record<string, string>>
}

const first = (name: string, more: Omit<Call, 'name' | 'start'> = {}): Call => ({
  name,
  start: true,
  ...more,
})
const next = (name: string, more: Omit<Call, 'name'> = {}): Call => ({ name, ...more })
const last = (name: string, more: Omit<Call, 'name' | 'end'> = {}): Call => ({ name, end: true, ...more })

/** A sequence is idle for no rule but those that say so. */
const long = 1000
const oldest = (options: SequenceConfig['oldest'] = {}, maxSequenceIdleMs = long): SequenceConfig => ({
  maxSequenceIdleMs,
  oldest: options,
})
const direct = (options: SequenceConfig['direct'] = {}, maxSequenceIdleMs = long): SequenceConfig => ({
  maxSequenceIdleMs,
  direct: options,
})

/** Of both strategies. */
const common = (strategy: string, sequence: SequenceConfig): Rule[] => [
  {
    rule: `${strategy}: requests of a sequence run one after the other, in the order of their calls`,
    sequence,
    calls: [first('A1'), next('A2'), next('A3')],
    batches: ['A1', 'A2', 'A3'],
  },
  {
    rule: `${strategy}: those of distinct sequences share runs`,
    sequence,
    calls: [first('A1'), first('B1'), first('C1'), next('A2'), next('B2'), next('C2')],
    batches: ['A1 B1 C1', 'A2 B2 C2'],
  },
  {
    rule: `${strategy}: one that does not begin a sequence and belongs to none is refused`,
    sequence,
    calls: [next('A1'), first('B1')],
    batches: ['B1'],
    rejected: { A1: 'ERR_SEQUENCE_ENDED' },
  },
  {
    rule: `${strategy}: START on a live id begins anew, behind the requests before it`,
    sequence,
    calls: [first('A1'), next('A2'), first('A3', { sum: 3 }), next('A4', { sum: 7 })],
    batches: ['A1', 'A2', 'A3', 'A4'],
  },
  {
    rule: `${strategy}: END frees the id`,
    sequence,
    calls: [first('A1'), last('A2'), next('A3', { at: 1 }), first('A4', { at: 2, sum: 4 })],
    batches: ['A1', 'A2', 'A4'],
    rejected: { A3: 'ERR_SEQUENCE_ENDED' },
  },
  {
    rule: `${strategy}: one request may be a whole sequence`,
    sequence,
    calls: [first('A1', { end: true }), next('A2', { at: 1 })],
    batches: ['A1'],
    rejected: { A2: 'ERR_SEQUENCE_ENDED' },
  },
  {
    rule: `${strategy}: what is withdrawn while it waits leaves the order of the others alone`,
    sequence,
    calls: [first('A1'), next('A2', { cancelled: true }), next('A3', { sum: 4 })],
    batches: ['A1', 'A3'],
    rejected: { A2: 'aborted' },
  },
  {
    rule: `${strategy}: START is told until a request of the sequence has run`,
    sequence,
    calls: [first('A1', { cancelled: true }), next('A2', { sum: 2 })],
    batches: ['A2'],
    rejected: { A1: 'aborted' },
  },
  {
    rule: `${strategy}: a sequence without a request for max_sequence_idle ends`,
    sequence: { ...sequence, maxSequenceIdleMs: 4 },
    calls: [first('A1'), next('A2', { at: 2 }), next('A3', { at: 9 })],
    batches: ['A1', 'A2'],
    rejected: { A3: 'ERR_SEQUENCE_ENDED' },
  },
]

export const rules: readonly Rule[] = [
  ...common('oldest', oldest()),
  ...common('direct', direct()),
  {
    rule: 'oldest: more sequences than candidates wait until one ends, the first first',
    max: 8,
    sequence: oldest({ maxCandidateSequences: 2 }),
    calls: [first('A1'), first('B1'), first('C1'), first('D1'), last('B2', { at: 2 }), last('A2', { at: 4 })],
    batches: ['A1 B1', 'B2', 'C1', 'A2', 'D1'],
  },
  {
    rule: 'oldest: or until one has been idle for too long',
    sequence: oldest({ maxCandidateSequences: 1 }, 4),
    calls: [first('A1'), first('B1')],
    batches: ['A1', 'B1'],
  },
  {
    rule: 'oldest: a sequence that waits for others expires as a whole with a request of it',
    sequence: oldest({ maxCandidateSequences: 1 }),
    calls: [
      first('A1'),
      first('B1', { timeout: 2 }),
      next('B2'),
      next('B3', { at: 5 }),
      next('A2', { at: 6 }),
    ],
    batches: ['A1', 'A2'],
    rejected: { B1: 'ERR_TIMEOUT', B2: 'ERR_TIMEOUT', B3: 'ERR_SEQUENCE_ENDED' },
  },
  {
    rule: 'oldest: a request that times out behind another of its sequence is the only one',
    sequence: oldest({ preferredBatchSize: 2, maxQueueDelayMs: 6 }),
    calls: [first('A1'), next('A2', { timeout: 2 }), next('A3', { sum: 4 })],
    batches: ['A1', 'A3'],
    rejected: { A2: 'ERR_TIMEOUT' },
  },
  {
    rule: 'oldest: an idle instance waits for a preferred size',
    sequence: oldest({ preferredBatchSize: 2, maxQueueDelayMs: 8 }),
    calls: [first('A1'), first('B1', { at: 2 })],
    batches: ['A1 B1'],
  },
  {
    rule: 'oldest: no longer than max_queue_delay',
    sequence: oldest({ preferredBatchSize: 2, maxQueueDelayMs: 3 }),
    calls: [first('A1'), first('B1', { at: 6 })],
    batches: ['A1', 'B1'],
  },
  {
    rule: 'direct: a slot belongs to its sequence until that ends, and is empty in runs without a request of it',
    sequence: direct(),
    calls: [first('A1'), first('B1'), first('C1'), next('B2', { at: 2 }), next('A2', { at: 4 })],
    batches: ['A1 B1 C1', '- B2 -', 'A2 - -'],
  },
  {
    rule: 'direct: a run has as many rows as the last slot that is taken',
    sequence: direct(),
    calls: [first('A1'), first('B1'), last('B2', { at: 2 }), next('A2', { at: 4 })],
    batches: ['A1 B1', '- B2', 'A2'],
  },
  {
    rule: 'direct: the lowest free slot goes to the next sequence',
    sequence: direct(),
    calls: [first('A1'), first('B1'), last('A2', { at: 2 }), first('C1', { at: 4 })],
    batches: ['A1 B1', 'A2 -', 'C1 -'],
  },
  {
    rule: 'direct: more sequences than slots wait until one ends',
    max: 2,
    sequence: direct(),
    calls: [first('A1'), first('B1'), first('C1'), last('B2', { at: 2 })],
    batches: ['A1 B1', '- B2', '- C1'],
  },
  {
    rule: 'direct: or until one has been idle for too long',
    max: 1,
    sequence: direct({}, 4),
    calls: [first('A1'), first('B1'), next('B2')],
    batches: ['A1', 'B1', 'B2'],
  },
  {
    rule: 'direct: with a delay an idle instance waits for minimum_slot_utilization',
    max: 4,
    sequence: direct({ maxQueueDelayMs: 8, minimumSlotUtilization: 0.5 }),
    calls: [first('A1'), first('B1', { at: 2 })],
    batches: ['A1 B1'],
  },
  {
    rule: 'direct: more than that run together',
    max: 4,
    sequence: direct({ maxQueueDelayMs: 8, minimumSlotUtilization: 0.5 }),
    calls: [first('A1'), first('B1'), first('C1')],
    batches: ['A1 B1 C1'],
  },
  {
    rule: 'direct: no longer than the delay',
    max: 4,
    sequence: direct({ maxQueueDelayMs: 3, minimumSlotUtilization: 0.5 }),
    calls: [first('A1'), first('B1', { at: 6 })],
    batches: ['A1', '- B1'],
  },
  {
    rule: 'direct: without minimum_slot_utilization nothing is waited for',
    max: 4,
    sequence: direct({ maxQueueDelayMs: 8 }),
    calls: [first('A1'), first('B1', { at: 2 })],
    batches: ['A1', '- B1'],
  },
  {
    rule: 'direct: each instance has slots of its own, the lowest are taken first',
    max: 4,
    instances: 2,
    sequence: direct(),
    calls: [first('A1'), first('B1'), first('C1'), first('D1')],
    batches: ['A1 C1', 'B1 D1'],
  },
]

/** The options of a model for a rule, with ticks of so many milliseconds. */
export function optionsOf(
  { max = 4, instances = 1, sequence = {} }: Rule,
  tickMs: number,
  base: SequenceConfig,
): ModelOptions {
  const ticks = <T extends { maxQueueDelayMs?: number }>(said: T): T =>
    said.maxQueueDelayMs === undefined ? said : { ...said, maxQueueDelayMs: said.maxQueueDelayMs * tickMs }
  const { maxSequenceIdleMs = long, oldest, direct } = sequence
  return {
    maxBatchSize: max,
    instanceGroup: [{ count: instances }],
    sequence: {
      ...base,
      maxSequenceIdleMs: maxSequenceIdleMs * tickMs,
      ...(oldest === undefined ? {} : { oldest: ticks(oldest) }),
      ...(direct === undefined ? {} : { direct: ticks(direct) }),
    },
  }
}
