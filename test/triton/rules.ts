import type { DynamicBatchingConfig } from '../../src/index.ts'

/** A request of a scenario. Times are in ticks after its start. */
export interface Arrival {
  readonly name: string
  readonly at?: number
  readonly rows?: number
  /** Requests of different shapes cannot share a run. */
  readonly shape?: number
  readonly priority?: number
  readonly timeout?: number
  /** When its caller withdraws it. */
  readonly cancelAt?: number
}

/** One rule as a scenario: what arrives, which batches are to be formed, and how long each caller waits. */
export interface Rule {
  /** Section of the description of Triton's batcher that says it; with a `*` where this library is to differ. */
  readonly section: string
  readonly rule: string
  readonly max?: number
  /** Times in ticks: see {@link ticked}. */
  readonly batching?: DynamicBatchingConfig
  /** Until when the only instance is occupied by something else. Default 0: it is idle. */
  readonly busyUntil?: number
  readonly arrivals: readonly Arrival[]
  /** Names in each batch, in the order of the runs. */
  readonly batches: readonly string[]
  /** By name: from arrival to the start of the run, or to the rejection. A run takes {@link runTicks}. */
  readonly waits: Readonly<Record<string, number>>
  readonly rejected?: Readonly<Record<string, 'ERR_TIMEOUT' | 'ERR_QUEUE_FULL' | 'aborted'>>
}

/** How long each run takes on the fake clock. Real ones are shorter; no rule depends on it but by order. */
export const runTicks = 1

const at0 = (names: string, more: Omit<Arrival, 'name'> = {}): Arrival[] =>
  [...names].map((name) => ({ name, ...more }))

/** Every wait of a scenario that is the same for all requests of a batch. */
const all = (ticks: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(ticks).flatMap(([names, wait]) => [...names].map((name) => [name, wait])))

export const rules: readonly Rule[] = [
  // 2.2 Enqueue
  {
    section: '2.2',
    rule: 'without batching one request is one run',
    max: 1,
    arrivals: at0('abc'),
    batches: ['a', 'b', 'c'],
    waits: { a: 0, b: 1, c: 2 },
  },
  {
    section: '2.2',
    rule: 'a full queue refuses at once; requests that run do not count',
    max: 1,
    batching: { defaultQueuePolicy: { maxQueueSize: 2 } },
    busyUntil: 6,
    arrivals: [...at0('ab'), ...at0('cde', { at: 1 })],
    batches: ['a', 'b'],
    waits: { a: 6, b: 7, c: 0, d: 0, e: 0 },
    rejected: { c: 'ERR_QUEUE_FULL', d: 'ERR_QUEUE_FULL', e: 'ERR_QUEUE_FULL' },
  },
  {
    section: '2.2',
    rule: 'a default timeout holds for requests that give none',
    batching: { defaultQueuePolicy: { defaultTimeoutMs: 2 } },
    busyUntil: 6,
    arrivals: at0('a'),
    batches: [],
    waits: { a: 2 },
    rejected: { a: 'ERR_TIMEOUT' },
  },
  {
    section: '2.2',
    rule: 'an allowed override shortens the default',
    batching: { defaultQueuePolicy: { defaultTimeoutMs: 4, allowTimeoutOverride: true } },
    busyUntil: 8,
    arrivals: [{ name: 'a', timeout: 2 }, { name: 'b' }],
    batches: [],
    waits: { a: 2, b: 4 },
    rejected: { a: 'ERR_TIMEOUT', b: 'ERR_TIMEOUT' },
  },
  {
    section: '2.2',
    rule: 'an allowed override does not lengthen it',
    batching: { defaultQueuePolicy: { defaultTimeoutMs: 2, allowTimeoutOverride: true } },
    busyUntil: 6,
    arrivals: [{ name: 'a', timeout: 20 }],
    batches: [],
    waits: { a: 2 },
    rejected: { a: 'ERR_TIMEOUT' },
  },
  {
    section: '2.2',
    rule: 'an override that is not allowed changes nothing',
    batching: { defaultQueuePolicy: { defaultTimeoutMs: 4 } },
    busyUntil: 8,
    arrivals: [{ name: 'a', timeout: 1 }],
    batches: [],
    waits: { a: 4 },
    rejected: { a: 'ERR_TIMEOUT' },
  },
  {
    section: '2.2*',
    rule: 'a timeout of its own counts where there is no default',
    busyUntil: 6,
    arrivals: [{ name: 'a', timeout: 2 }, { name: 'b' }],
    batches: ['b'],
    waits: { a: 2, b: 6 },
    rejected: { a: 'ERR_TIMEOUT' },
  },

  // 2.3 The decision
  { section: '2.3', rule: 'delay 0 never waits', arrivals: at0('a'), batches: ['a'], waits: { a: 0 } },
  {
    section: '2.3',
    rule: 'what waits together goes together',
    arrivals: at0('abc'),
    batches: ['abc'],
    waits: all({ abc: 0 }),
  },
  {
    section: '2.3',
    rule: 'a batch holds the maximum at most',
    arrivals: at0('abcdefghij'),
    batches: ['abcdefgh', 'ij'],
    waits: all({ abcdefgh: 0, ij: 1 }),
  },
  {
    section: '2.3',
    rule: 'the largest preferred prefix goes first, without a delay the rest follows',
    batching: { preferredBatchSize: [2, 4, 6] },
    arrivals: at0('abcdefg'),
    batches: ['abcdef', 'g'],
    waits: all({ abcdef: 0, g: 1 }),
  },
  {
    section: '2.3',
    rule: 'a smaller preferred size is taken when the larger cannot be reached',
    batching: { preferredBatchSize: [2, 4] },
    arrivals: at0('abc'),
    batches: ['ab', 'c'],
    waits: all({ ab: 0, c: 1 }),
  },
  {
    section: '2.3',
    rule: 'below every preferred size delay 0 sends everything',
    batching: { preferredBatchSize: 4 },
    arrivals: at0('abc'),
    batches: ['abc'],
    waits: all({ abc: 0 }),
  },
  {
    section: '2.3',
    rule: 'with a delay, a batch below every preferred size waits for its oldest request to be that old',
    batching: { preferredBatchSize: 4, maxQueueDelayMs: 4 },
    arrivals: [...at0('a'), ...at0('b', { at: 2 })],
    batches: ['ab'],
    waits: { a: 4, b: 2 },
  },
  {
    section: '2.3',
    rule: 'reaching a preferred size ends the wait',
    batching: { preferredBatchSize: 4, maxQueueDelayMs: 6 },
    arrivals: [...at0('ab'), ...at0('cd', { at: 2 })],
    batches: ['abcd'],
    waits: all({ ab: 2, cd: 0 }),
  },
  {
    section: '2.3',
    rule: 'reaching the maximum ends the wait',
    max: 4,
    batching: { maxQueueDelayMs: 6 },
    arrivals: [...at0('ab'), ...at0('cd', { at: 2 })],
    batches: ['abcd'],
    waits: all({ ab: 2, cd: 0 }),
  },
  {
    section: '2.3',
    rule: 'a request beyond the largest preferred size flushes those before it and waits its own delay',
    batching: { preferredBatchSize: 4, maxQueueDelayMs: 4 },
    arrivals: [
      { name: 'a', rows: 3 },
      { name: 'b', rows: 2, at: 2 },
    ],
    batches: ['a', 'b'],
    waits: { a: 2, b: 4 },
  },
  {
    section: '2.3',
    rule: 'a request beyond the maximum flushes those before it and waits its own delay',
    max: 4,
    batching: { maxQueueDelayMs: 4 },
    arrivals: [
      { name: 'a', rows: 3 },
      { name: 'b', rows: 2, at: 2 },
    ],
    batches: ['a', 'b'],
    waits: { a: 2, b: 4 },
  },
  {
    section: '2.3',
    rule: 'a single request of the largest preferred size or more goes at once',
    batching: { preferredBatchSize: 4, maxQueueDelayMs: 6 },
    arrivals: [{ name: 'a', rows: 5 }],
    batches: ['a'],
    waits: { a: 0 },
  },
  {
    section: '2.3',
    rule: 'when the delay ran out preferred sizes do not count, up to the maximum',
    batching: { preferredBatchSize: [4], maxQueueDelayMs: 3 },
    arrivals: [
      { name: 'a', rows: 2 },
      { name: 'b', rows: 1, at: 1 },
    ],
    batches: ['ab'],
    waits: { a: 3, b: 2 },
  },
  {
    section: '2.3',
    rule: 'requests are not reordered for a better fit',
    max: 4,
    arrivals: [
      { name: 'a', rows: 3 },
      { name: 'b', rows: 3 },
      { name: 'c', rows: 1 },
    ],
    batches: ['a', 'bc'],
    waits: { a: 0, b: 1, c: 1 },
  },
  {
    section: '2.3',
    rule: 'a request of several rows counts with all of them',
    max: 4,
    arrivals: [
      { name: 'a', rows: 2 },
      { name: 'b', rows: 2 },
      { name: 'c', rows: 1 },
    ],
    batches: ['ab', 'c'],
    waits: { a: 0, b: 0, c: 1 },
  },
  {
    section: '2.3',
    rule: 'a preferred size is reached by several rows too',
    batching: { preferredBatchSize: [6], maxQueueDelayMs: 6 },
    arrivals: [{ name: 'a', rows: 2 }, { name: 'b' }, { name: 'c', rows: 3 }],
    batches: ['abc'],
    waits: all({ abc: 0 }),
  },
  {
    section: '2.3',
    rule: 'what arrives while the instance is busy is batched when it is free',
    busyUntil: 6,
    arrivals: [...at0('a'), ...at0('b', { at: 1 }), ...at0('c', { at: 2 })],
    batches: ['abc'],
    waits: { a: 6, b: 5, c: 4 },
  },

  // 2.4 Growth
  {
    section: '2.4*',
    rule: 'under load a batch never has one request more than the largest preferred size',
    batching: { preferredBatchSize: 4, maxQueueDelayMs: 20 },
    busyUntil: 6,
    arrivals: [...at0('abcde'), ...at0('fgh', { at: 1 })],
    batches: ['abcd', 'efgh'],
    waits: all({ abcd: 6, e: 7, fgh: 6 }),
  },
  {
    section: '2.4*',
    rule: 'batches that wait behind a busy instance are not merged past a preferred size',
    batching: { preferredBatchSize: 2, maxQueueDelayMs: 1 },
    busyUntil: 6,
    arrivals: at0('abcdefgh').map((arrival, index) => ({ ...arrival, at: index < 4 ? 0 : 2 })),
    batches: ['ab', 'cd', 'ef', 'gh'],
    waits: { a: 6, b: 6, c: 7, d: 7, e: 6, f: 6, g: 7, h: 7 },
  },

  // 2.5 Shapes
  {
    section: '2.5*',
    rule: 'another shape does not flush: each waits in a bucket of its own for its own delay',
    batching: { maxQueueDelayMs: 4 },
    arrivals: [
      { name: 'a', shape: 2 },
      { name: 'b', shape: 3, at: 1 },
      { name: 'c', shape: 2, at: 2 },
      { name: 'd', shape: 3, at: 3 },
    ],
    batches: ['ac', 'bd'],
    waits: { a: 4, b: 4, c: 2, d: 2 },
  },
  {
    section: '2.5*',
    rule: 'alternating shapes are sorted out, the oldest bucket first',
    busyUntil: 6,
    arrivals: at0('abcdef').map((arrival, index) => ({ ...arrival, at: index / 4, shape: 2 + (index % 2) })),
    batches: ['ace', 'bdf'],
    waits: { a: 6, b: 6.75, c: 5.5, d: 6.25, e: 5, f: 5.75 },
  },

  // 2.6 Timeouts, cancellation, priorities
  {
    section: '2.6',
    rule: 'REJECT rejects a request at its time and serves the others',
    batching: { defaultQueuePolicy: { timeoutAction: 'REJECT' } },
    busyUntil: 6,
    arrivals: [{ name: 'a', timeout: 2 }, { name: 'b' }, { name: 'c', timeout: 3 }],
    batches: ['b'],
    waits: { a: 2, b: 6, c: 3 },
    rejected: { a: 'ERR_TIMEOUT', c: 'ERR_TIMEOUT' },
  },
  {
    section: '2.6',
    rule: 'DELAY serves a request that is out of time behind the others of its level',
    max: 1,
    batching: { defaultQueuePolicy: { timeoutAction: 'DELAY' } },
    busyUntil: 6,
    arrivals: [{ name: 'o' }, { name: 'a', timeout: 2 }, { name: 'b' }, { name: 'c', at: 3 }],
    batches: ['o', 'b', 'c', 'a'],
    waits: { o: 6, a: 9, b: 7, c: 5 },
  },
  {
    section: '2.6',
    rule: 'but before those of lower levels',
    max: 1,
    batching: { priorityLevels: 2, defaultQueuePolicy: { timeoutAction: 'DELAY' } },
    busyUntil: 6,
    arrivals: [
      { name: 'o', priority: 1 },
      { name: 'x', priority: 2 },
      { name: 'a', priority: 1, timeout: 2 },
      { name: 'b', priority: 1, at: 3 },
    ],
    batches: ['o', 'b', 'a', 'x'],
    waits: { o: 6, x: 9, a: 8, b: 4 },
  },
  {
    section: '2.6',
    rule: 'a request that was handed ahead to a busy instance waits still, and times out',
    max: 1,
    busyUntil: 6,
    arrivals: [{ name: 'a', timeout: 4 }],
    batches: [],
    waits: { a: 4 },
    rejected: { a: 'ERR_TIMEOUT' },
  },
  {
    section: '2.6*',
    rule: 'a withdrawn request leaves at once and frees its place',
    batching: { defaultQueuePolicy: { maxQueueSize: 1 } },
    busyUntil: 8,
    arrivals: [
      { name: 'a', cancelAt: 2 },
      { name: 'b', at: 1 },
      { name: 'c', at: 3 },
    ],
    batches: ['c'],
    waits: { a: 2, b: 0, c: 5 },
    rejected: { a: 'aborted', b: 'ERR_QUEUE_FULL' },
  },
  {
    section: '2.6',
    rule: 'levels are strict, each first come first served',
    max: 1,
    batching: { priorityLevels: 3, defaultPriorityLevel: 2 },
    busyUntil: 6,
    arrivals: [
      { name: 'o', priority: 1 },
      { name: 'c', priority: 3 },
      { name: 'b' },
      { name: 'a', priority: 1 },
      { name: 'd', priority: 3 },
      { name: 'e' },
    ],
    batches: ['o', 'a', 'b', 'e', 'c', 'd'],
    waits: { o: 6, a: 7, b: 8, e: 9, c: 10, d: 11 },
  },
  {
    section: '2.6',
    rule: 'level 0 and levels out of range are the default one; numbers may be huge',
    max: 1,
    batching: { priorityLevels: 2 ** 40, defaultPriorityLevel: 5 },
    busyUntil: 6,
    arrivals: [
      { name: 'o', priority: 1 },
      { name: 'z', priority: 2 ** 40 },
      { name: 'a', priority: 0 },
      { name: 'b', priority: 2 ** 41 },
      { name: 'c', priority: 4 },
      { name: 'd', priority: 6 },
    ],
    batches: ['o', 'c', 'a', 'b', 'd', 'z'],
    waits: { o: 6, c: 7, a: 8, b: 9, d: 10, z: 11 },
  },
  {
    section: '2.6',
    rule: 'a more urgent request completes a preferred batch with older, less urgent ones',
    batching: { preferredBatchSize: 3, maxQueueDelayMs: 8, priorityLevels: 2 },
    arrivals: [...at0('ab', { priority: 2 }), { name: 'c', priority: 1, at: 2 }],
    batches: ['cab'],
    waits: { a: 2, b: 2, c: 0 },
  },
  {
    section: '2.6',
    rule: 'each level has its own queue size and timeout',
    max: 1,
    batching: {
      priorityLevels: 2,
      priorityQueuePolicy: { 1: { maxQueueSize: 1 }, 2: { defaultTimeoutMs: 3 } },
    },
    busyUntil: 6,
    arrivals: [
      { name: 'o', priority: 1 },
      { name: 'a', priority: 1, at: 1 },
      { name: 'b', priority: 1, at: 1 },
      { name: 'c', priority: 2, at: 1 },
    ],
    batches: ['o'],
    waits: { o: 6, a: 0, b: 0, c: 3 },
    rejected: { a: 'ERR_QUEUE_FULL', b: 'ERR_QUEUE_FULL', c: 'ERR_TIMEOUT' },
  },

  // 2.7 Order
  {
    section: '2.7',
    rule: 'one instance answers in order by itself, with preserveOrdering or without',
    max: 2,
    batching: { preserveOrdering: true },
    busyUntil: 6,
    arrivals: at0('abcde'),
    batches: ['ab', 'cd', 'e'],
    waits: all({ ab: 6, cd: 7, e: 8 }),
  },
]

/** A rule's times in ticks of so many milliseconds. */
export function ticked(batching: DynamicBatchingConfig, tickMs: number): DynamicBatchingConfig {
  const policy = ({
    defaultTimeoutMs = 0,
    ...rest
  }: NonNullable<DynamicBatchingConfig['defaultQueuePolicy']>) => ({
    ...rest,
    defaultTimeoutMs: defaultTimeoutMs * tickMs,
  })
  const { maxQueueDelayMs = 0, defaultQueuePolicy, priorityQueuePolicy, ...rest } = batching
  return {
    ...rest,
    maxQueueDelayMs: maxQueueDelayMs * tickMs,
    ...(defaultQueuePolicy && { defaultQueuePolicy: policy(defaultQueuePolicy) }),
    ...(priorityQueuePolicy && {
      priorityQueuePolicy: Object.fromEntries(
        Object.entries(priorityQueuePolicy).map(([level, each]) => [level, policy(each)]),
      ),
    }),
  }
}
