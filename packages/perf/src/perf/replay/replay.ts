import type { Feeds, InferOptions, ModelMetadata } from 'zerohop'
import { type Arrival, invalidArgument } from 'zerohop/internals'
import {
  generatedBytes,
  type GeneratedData,
  generatedFeed,
  type GivenShapes,
  hasRows,
  type InputShape,
  inputShapes,
  mostGeneratedBytes,
} from '../input/generated-data.ts'
import type { Sample, SampleSource } from '../input/sample-source.ts'
import { metronome, OpenLoop } from '../load/open-loop.ts'
import { measure, type MeasureHooks } from '../measure.ts'
import type { PerfTarget } from '../open-target.ts'
import type { MeasureSettings } from '../perf-settings.ts'
import type { LevelResult } from '../result-schema.ts'
import { withoutUndefined } from '../../without-undefined.ts'

/** Moments to send the requests of a recording: as they arrived, `speed` times as fast. */
export function* replaySchedule(arrivals: readonly Arrival[], speed: number): Generator<number, void> {
  for (const { atUs } of arrivals) yield atUs / 1000 / speed
}

/**
 * The requests of one model.
 *
 * @param model its name; `null` if all requests are of one model.
 * @throws InferenceError `ERR_INVALID_ARG` if there are none, or several models.
 */
export function arrivalsOf(arrivals: readonly Arrival[], model: string | null): readonly Arrival[] {
  const names = [...new Set(arrivals.flatMap((arrival) => arrival.model ?? []))]
  if (model === null && names.length <= 1) return arrivals
  const expected = `one of the models that were recorded (${names.join(', ')})`
  if (model === null) throw invalidArgument('--replay-model', expected, undefined)
  const own = arrivals.filter((arrival) => arrival.model === model)
  if (own.length === 0) throw invalidArgument('--replay-model', expected, model)
  // Counted from the first of them, as if nothing else had been recorded.
  const firstUs = own[0]!.atUs
  return own.map((arrival) => ({ ...arrival, atUs: arrival.atUs - firstUs }))
}

/**
 * Sends the requests of a recording once, and measures them as one window, from the first request to the last
 * answer.
 */
export function replay(
  target: PerfTarget & { readonly source: ReplaySource },
  speed: number,
  settings: MeasureSettings,
  hooks: MeasureHooks,
): Promise<LevelResult> {
  const { arrivals } = target.source
  const load = new OpenLoop(target.source, replaySchedule(arrivals, speed), { pacer: metronome })
  return measure(
    target,
    { level: speed, load },
    { ...settings, warmupRequestCount: 0, requestCount: arrivals.length },
    hooks,
  )
}

/** Most different requests kept, and their memory together. Others are generated each time. */
const mostKept = 256
const mostKeptBytes = Math.min(256 * 2 ** 20, mostGeneratedBytes / 4)

/** Recorded requests with their rows, dims, options and sequences, and generated data. */
export class ReplaySource implements SampleSource {
  readonly size = null
  readonly arrivals: readonly Arrival[]
  readonly #metadata: ModelMetadata
  readonly #data: GeneratedData
  readonly #shapes: GivenShapes
  readonly #random: () => number
  readonly #kept = new Map<string, Feeds>()
  #keptBytes = 0
  /** By sequence id: the indices of its first and last requests. */
  readonly #sequences: ReadonlyMap<number | string, readonly [first: number, last: number]>
  #next = 0

  /**
   * @param shapes dims of inputs that are missing in the recording.
   * @throws InferenceError `ERR_INVALID_ARG` for a request that the model does not accept. Checked now, as it
   * could not be reported during the replay.
   */
  constructor(
    arrivals: readonly Arrival[],
    metadata: ModelMetadata,
    data: GeneratedData,
    shapes: GivenShapes,
    random: () => number,
  ) {
    this.arrivals = arrivals
    this.#metadata = metadata
    this.#data = data
    this.#shapes = shapes
    this.#random = random
    this.#sequences = sequencesOf(arrivals)
    const checked = new Set<string>()
    for (const [index, arrival] of arrivals.entries()) {
      if (!checked.has(keyOf(arrival))) this.#check(arrival, index)
      checked.add(keyOf(arrival))
    }
  }

  next(): Sample {
    const index = this.#next++
    const arrival = this.arrivals[index]!
    const options = this.#optionsOf(arrival, index)
    const sample = { feeds: this.#feedsOf(arrival), rows: arrival.rows }
    return options === undefined ? sample : { ...sample, options }
  }

  /** The first request, without advancing. May be called repeatedly. */
  first(): Sample {
    return { feeds: this.#feedsOf(this.arrivals[0]!), rows: this.arrivals[0]!.rows }
  }

  #check(arrival: Arrival, index: number): void {
    const bytes = this.#bytesOf(this.#inputsOf(arrival), arrival)
    if (bytes > mostGeneratedBytes)
      throw invalidArgument(
        `request ${index + 1} of the recording`,
        `no more than ${mostGeneratedBytes} bytes, which are held in memory`,
        `${arrival.rows} rows, ${bytes} bytes`,
      )
  }

  #bytesOf(inputs: readonly InputShape[], { rows }: Arrival): number {
    return inputs.reduce((sum, input) => sum + generatedBytes(input, rows, this.#data), 0)
  }

  #inputsOf({ rows, dims }: Arrival): InputShape[] {
    if (rows > 1 && !hasRows(this.#metadata))
      throw invalidArgument('rows', `1, as requests to '${this.#metadata.name}' have none`, rows)
    return inputShapes(this.#metadata, new Map([...this.#shapes, ...this.#rowDims(rows, dims)]))
  }

  #feedsOf(arrival: Arrival): Feeds {
    const key = keyOf(arrival)
    let feeds = this.#kept.get(key)
    if (feeds !== undefined) return feeds
    const inputs = this.#inputsOf(arrival)
    feeds = Object.fromEntries(
      inputs.map((input) => [input.name, generatedFeed(input, arrival.rows, this.#data, this.#random)]),
    )
    const bytes = this.#bytesOf(inputs, arrival)
    if (this.#kept.size < mostKept && this.#keptBytes + bytes <= mostKeptBytes) {
      this.#kept.set(key, feeds)
      this.#keptBytes += bytes
    }
    return feeds
  }

  /** Recorded dims of the model's inputs, without the dimension that counts rows. */
  #rowDims(rows: number, dims: Arrival['dims'] = {}): [string, readonly number[]][] {
    return this.#metadata.inputs.flatMap(({ name, shape }) => {
      const recorded = dims[name]
      if (recorded === undefined) return []
      return [
        [
          name,
          hasRows(this.#metadata) && recorded.length === shape.length && recorded[0] === rows
            ? recorded.slice(1)
            : recorded,
        ],
      ]
    })
  }

  #optionsOf(
    { priority, timeoutMs, deadlineMs, sequenceId, cancelledUs }: Arrival,
    index: number,
  ): InferOptions | undefined {
    if ([priority, timeoutMs, deadlineMs, sequenceId, cancelledUs].every((option) => option === undefined))
      return undefined
    const sequence = sequenceId === undefined ? undefined : this.#sequences.get(sequenceId)!
    return withoutUndefined({
      priority,
      timeoutMs,
      deadlineMs,
      // Made at the time of sending.
      signal:
        cancelledUs === undefined
          ? undefined
          : AbortSignal.timeout(Math.min(2 ** 31 - 1, Math.ceil(cancelledUs / 1000))),
      ...(sequence && {
        sequenceId: sequenceId!,
        sequenceStart: sequence[0] === index,
        sequenceEnd: sequence[1] === index,
      }),
    })
  }
}

/** Requests with the same key have the same rows and dims. */
function keyOf({ rows, dims }: Arrival): string {
  return dims === undefined ? String(rows) : `${rows} ${JSON.stringify(dims)}`
}

function sequencesOf(arrivals: readonly Arrival[]): Map<number | string, readonly [number, number]> {
  const found = new Map<number | string, readonly [number, number]>()
  for (const [index, { sequenceId }] of arrivals.entries()) {
    if (sequenceId !== undefined) found.set(sequenceId, [found.get(sequenceId)?.[0] ?? index, index])
  }
  return found
}
