import { checkInferOptions, noOptions } from '../../src/options/infer-options.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import type { InferOptions, ModelConfig, Outputs, ReportedOutputs } from '../../src/index.ts'
import { FeedParser } from '../../src/request/feeds.ts'
import { ResponseSharing } from '../../src/features/response-cache/response-sharing.ts'
import { Served, House } from '../workers/serving.ts'

type Config = Omit<ModelConfig, 'path' | 'bytes'>

/** What one caller sent and got. */
export interface Call {
  readonly id: number
  /** What was in the input when it was called. */
  readonly values: readonly number[]
  /** Its input, which it may change afterwards. */
  readonly data: Float32Array
  readonly answer: Promise<ReportedOutputs<Outputs>>
  settlements: number
}

/** The model y = 2 x, float32 ['N', 4], whose requests share answers and runs, on threads in a test's hands. */
export class SharedModel {
  readonly house: House
  readonly served: Served
  readonly sharing: ResponseSharing
  readonly #parser: FeedParser
  #calls = 0

  private constructor(house: House, served: Served, config: Config) {
    this.house = house
    this.served = served
    this.sharing = ResponseSharing.of(
      served.scheduler,
      resolveConfig('m', { path: 'm.onnx', maxBatchSize: 4, ...config }),
    )!
    this.#parser = new FeedParser(served.scheduler.metadata)
  }

  static async open(config: Config, workers = 1): Promise<SharedModel> {
    const house = await House.open(workers)
    return new SharedModel(house, await Served.on(house, 'm', house.places, config), config)
  }

  get thread() {
    return this.house.places[0]!.threads.current
  }

  /** Sends rows of 4 equal elements. */
  call(rows: readonly number[], options?: InferOptions<string, boolean>): Call {
    const { metadata, levels } = this.served.scheduler
    const data = Float32Array.from(rows.flatMap((value) => [value, value, value, value]))
    const feeds = { x: { type: 'float32', dims: [rows.length, 4], data } }
    const checked = options === undefined ? noOptions : checkInferOptions(options, metadata)
    const parsed = this.#parser.parse(feeds, rows.length > metadata.maxBatchSize)
    const level = levels.of(checked.priority)
    const asked = {
      feeds: parsed,
      maxRows: metadata.maxBatchSize,
      level,
      options: { ...checked, report: true },
    }
    const answer = this.sharing.infer(asked) as Promise<ReportedOutputs<Outputs>>
    const call: Call = { id: ++this.#calls, values: [...data], data, answer, settlements: 0 }
    answer.then(
      () => call.settlements++,
      () => call.settlements++,
    )
    return call
  }

  /** The statistics, with the counts of the response cache. */
  stats() {
    return this.served.scheduler.counts.snapshot(this.served.scheduler.waiting, null, this.sharing.totals)
  }

  /** Ends all runs there are, and says how many. */
  async finish(error: string | null = null): Promise<number> {
    let runs = 0
    await turns()
    for (const { threads } of this.house.places) while (threads.current.finish(error)) runs++
    await turns()
    return runs
  }
}

/** Lets everything happen that needs no time. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
}

/** What became of a call so far: the code of its error, its abort's reason, `'waits'`, or the first value of its answer. */
export async function fate({ answer }: Pick<Call, 'answer'>): Promise<unknown> {
  const ended = answer.then(
    ({ outputs }) => (outputs.y!.data as Float32Array)[0],
    (reason: { code?: string }) => reason.code ?? reason,
  )
  return Promise.race([ended, turns().then(() => 'waits')])
}

export const fates = (calls: readonly Pick<Call, 'answer'>[]): Promise<unknown[]> =>
  Promise.all(calls.map(fate))
