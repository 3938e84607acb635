import { checkInferOptions } from '../../src/options/infer-options.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import type { InferOptions, ModelOptions, Outputs, ReportedOutputs, SequenceEvent } from '../../src/index.ts'
import { RunTimes } from '../../src/schedule/estimates.ts'
import type { StagingBuffer } from '../../src/native/staging-pool.ts'
import { FeedParser } from '../../src/request/feeds.ts'
import { ModelInstances } from '../../src/models/scaling/model-instances.ts'
import { Joining } from '../../src/schedule/joining.ts'
import { ObservedRequests } from '../../src/schedule/observed-requests.ts'
import { Scheduler } from '../../src/schedule/scheduler.ts'
import { SequenceInputs } from '../../src/features/sequences/sequence-inputs.ts'
import { Sequences } from '../../src/features/sequences/sequences.ts'
import { FakeHost, type House } from '../workers/serving.ts'
import { accumulate, accumulatorInputs, accumulatorOutputs, type Row } from './accumulators.ts'

/** The model `accumulator` with sequences, served by real instances on fake threads: all but ONNX Runtime and time is real. */
export class ServedSequences {
  readonly sequences: Sequences
  readonly scheduler: Scheduler
  /** The rows of each run, in the order of the runs. */
  readonly runs: Row[][] = []
  /** What was told of sequences that are over. */
  readonly over: Pick<SequenceEvent, 'type' | 'sequenceId' | 'reason'>[] = []
  /** Staging memory that states hold, in bytes. */
  stateBytes = 0
  failure: string | null = null
  readonly #instances: ModelInstances

  private constructor(house: House, options: ModelOptions) {
    const config = resolveConfig('m', {
      path: 'm.onnx',
      checkRows: false,
      instanceGroup: [{ kind: 'cpu', count: house.places.length }],
      ...options,
    })
    const tensors = {
      inputs: accumulatorInputs,
      outputs: accumulatorOutputs,
      properties: null,
      unservableOutputs: [],
      executionProviders: [],
    }
    const joining = new Joining('m', config, tensors)
    const parser = new FeedParser(joining.stacked)
    const { clock, keepAlive } = house
    this.scheduler = new Scheduler({
      observed: new ObservedRequests({ name: 'model', version: 1, metadata: joining.stacked, batching: null }),
      joining, rowCheck: null, padding: null, costs: null, config, runTimes: new RunTimes(), instances: house.places.length, clock, keepAlive, gaveUp: (reason) => void (this.failure = reason),
    }) // prettier-ignore
    const inputs = new SequenceInputs(joining.stacked, config.sequence!, parser)
    const acquire = (byteLength: number) => buffer(byteLength, (bytes) => void (this.stateBytes += bytes))
    this.sequences = new Sequences({
      config: config.sequence!,
      inputs,
      parser,
      scheduler: this.scheduler,
      over: (event) => void this.over.push(event),
      staging: () => ({ acquire }),
    })
    const host = new FakeHost(clock, house.places, (byteLength) => buffer(byteLength, () => {}))
    this.#instances = new ModelInstances('m', config, host, () => this.failure === null)
    for (const { threads } of house.places)
      threads.compute = (memory, layout) => void this.runs.push(accumulate(memory, layout))
  }

  /** Loads it with an instance on each place of a house. */
  static async on(house: House, options: ModelOptions): Promise<ServedSequences> {
    const model = new ServedSequences(house, options)
    await model.#instances.open()
    await model.#instances.warm({ run: async () => {} } as never)
    model.#instances.serve(model.scheduler)
    return model
  }

  /** One request, with its report. */
  infer(
    x: number,
    options: InferOptions,
    more: Record<string, Float32Array> = {},
  ): Promise<ReportedOutputs<Outputs>> {
    const { metadata } = this.scheduler
    const { joining } = this.scheduler
    const checked = checkInferOptions({ ...options, report: true }, metadata, joining.shaped.offered)
    try {
      return this.sequences.infer({ x: Float32Array.of(x), ...more }, checked, checked.sequence!) as Promise<
        ReportedOutputs<Outputs>
      >
    } catch (error) {
      return Promise.reject(error)
    }
  }
}

/** Staging memory that is not what it was once it was given back. */
function buffer(byteLength: number, counted: (bytes: number) => void): StagingBuffer {
  const bytes = new SharedArrayBuffer(byteLength)
  counted(byteLength)
  let held = true
  const release = () => {
    if (held) counted(-byteLength)
    held = false
    new Uint8Array(bytes).fill(0xff)
  }
  return {
    kind: 'shared',
    bytes,
    byteLength,
    largeFromBytes: Infinity,
    memory: { kind: 'shared', buffer: bytes, copied: false },
    release,
  }
}
