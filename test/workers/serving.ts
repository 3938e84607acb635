import { resolveConfig } from '../../src/options/model-config.ts'
import type { Clock } from '../../src/base/clock.ts'
import { asItIs, type PreparedModel } from '../../src/models/compiled-models/model-preparation.ts'
import { ModelHost } from '../../src/models/model-host.ts'
import { resolveEngineOptions } from '../../src/options/engine-options.ts'
import type { Placement, SessionRuntime } from '../../src/options/session-options.ts'
import { noOptions, type CheckedOptions } from '../../src/options/infer-options.ts'
import type { InferOptions, ModelConfig, ReportedOutputs, Outputs } from '../../src/index.ts'
import { ThreadEndedError } from '../../src/run/executors/executor.ts'
import type { Instance } from '../../src/schedule/instance-set.ts'
import type { WarmUp } from '../../src/models/warm-up.ts'
import { RunTimes } from '../../src/schedule/estimates.ts'
import type { StagingBuffer, StagingPool } from '../../src/native/staging-pool.ts'
import { FeedParser } from '../../src/request/feeds.ts'
import { InferRequest } from '../../src/request/infer-request.ts'
import type { Preparation } from '../../src/request/participants.ts'
import { Joining } from '../../src/schedule/joining.ts'
import { ModelInstances } from '../../src/models/scaling/model-instances.ts'
import { Scaling } from '../../src/models/scaling/scaling.ts'
import { Observers } from '../../src/observe/observers.ts'
import { ObservedRequests } from '../../src/schedule/observed-requests.ts'
import { Scheduler } from '../../src/schedule/scheduler.ts'
import { SplitRequest } from '../../src/schedule/split-request.ts'
import { KeepAlive } from '../../src/base/clock.ts'
import type { WorkerSession } from '../../src/run/worker-session.ts'
import { Worker } from '../../src/run/worker.ts'
import { FakeClock } from '../fake-clock.ts'
import { deferred } from '../support/deferred.ts'
import { FakeThreads } from './fake-threads.ts'

/** Whether the loop is held, and that it is let go as often as it was held. */
export class CountedHolds extends KeepAlive {
  holds = 0

  override enter(): void {
    this.holds++
  }

  override leave(): void {
    if (--this.holds < 0) throw new Error('the loop is let go more often than it was held')
  }
}

let lastId = 0

const options = resolveEngineOptions({ cache: false, verify: 'none' })

/** Puts instances on the workers of a test; nothing is prepared, or looked for. */
export class FakeHost extends ModelHost {
  readonly #places: readonly Pick<Place, 'worker'>[]
  readonly #acquire: (byteLength: number) => StagingBuffer
  readonly #choose: ((apartFrom: ReadonlySet<Worker>) => Worker) | null

  readonly #threads: Pick<Placement, 'intraOpNumThreads' | 'cores'>

  /**
   * @param choose the worker of a further instance.
   * @param threads of the model's runs.
   */
  constructor(
    clock: Clock,
    places: readonly Pick<Place, 'worker'>[],
    acquire: (byteLength: number) => StagingBuffer,
    choose: ((apartFrom: ReadonlySet<Worker>) => Worker) | null = null,
    threads: Pick<Placement, 'intraOpNumThreads' | 'cores'> = { intraOpNumThreads: 1 },
  ) {
    super(options, clock, () => {})
    this.#threads = threads
    this.#places = places
    this.#acquire = acquire
    this.#choose = choose
  }

  override nextId(): number {
    return ++lastId
  }

  override async place(...[, , place]: Parameters<ModelHost['place']>): Promise<void> {
    const placement = { kind: 'cpu', gpu: 0, ...this.#threads } as const
    for (const { worker } of this.#places) place(worker, placement, 0)
  }

  override async placeMore(...[, more, apartFrom, place]: Parameters<ModelHost['placeMore']>): Promise<void> {
    for (let added = 0; added < more; added++) place(this.#choose!(apartFrom))
  }

  override async released(): Promise<void> {}

  override stagingOf(): StagingPool {
    return { acquire: this.#acquire, trim: () => {} } as unknown as StagingPool
  }

  override async prepare(model: string): Promise<PreparedModel> {
    const isCompiled = this.#threads.cores !== undefined
    const original = { model, options: {}, isStillMade: () => true, used: () => {} }
    return {
      ...asItIs(''),
      answersAlike: () => true,
      opening: () => ({ model, options: {}, ...(isCompiled && { original }) }),
    }
  }

  override sessionRuntime(): SessionRuntime {
    return { ortVersion: '1.30.0', useProvider: (entry) => entry }
  }

  override async lacksProvider(): Promise<boolean> {
    return false
  }

  override providersOf(): readonly [] {
    return []
  }
}

/** A warming that runs something on each new thread but the first, of which a test may count what it is asked. */
function warmedAgain(): WarmUp {
  const warmed = new Set<WorkerSession>()
  return {
    run: async (session: WorkerSession) => {
      if (warmed.has(session)) await session.runSample([null])
      warmed.add(session)
    },
  } as unknown as WarmUp
}

/** Staging memory that was given back. */
export const released: SharedArrayBuffer[] = []

function sharedBuffer(byteLength: number): StagingBuffer {
  const buffer = new SharedArrayBuffer(byteLength)
  const memory = { kind: 'shared', buffer, copied: false } as const
  return {
    kind: 'shared',
    bytes: buffer,
    byteLength,
    largeFromBytes: Infinity,
    memory,
    release: () => void released.push(buffer),
  }
}

/** A worker whose threads a test holds in its hands. */
export interface Place {
  readonly worker: Worker
  readonly threads: FakeThreads
  readonly events: string[]
}

/** Everything around models except ONNX Runtime and time. */
export class House {
  readonly clock = new FakeClock(1000)
  readonly keepAlive = new CountedHolds()
  readonly places: Place[]
  /** See {@link FakeHost}; set before a model is loaded. */
  threads: ConstructorParameters<typeof FakeHost>[4] = { intraOpNumThreads: 1 }

  private constructor(workers: number) {
    this.places = Array.from({ length: workers }, (_, number) => {
      const threads = new FakeThreads()
      const events: string[] = []
      const worker = new Worker(
        threads,
        this.clock,
        (type, reason) => events.push(reason === undefined ? type : `${type}: ${reason}`),
        `cpu_${number}`,
      )
      return { worker, threads, events }
    })
    for (const { threads } of this.places) threads.workers = this.places.map(({ worker }) => worker)
  }

  /** One with a worker whose thread was not started yet. */
  static unstarted(): Place & { house: House } {
    const house = new House(1)
    return { house, ...house.places[0]! }
  }

  static async open(workers: number): Promise<House> {
    const house = new House(workers)
    await Promise.all(house.places.map(({ worker }) => worker.start()))
    return house
  }
}

/** What is answered: outputs and report, or the reason of the rejection, with how often it was settled. */
export interface Sent {
  readonly request: InferRequest
  readonly answer: Promise<ReportedOutputs<Outputs>>
  settlements: number
}

/** A model y = 2 x, float32 ['N', 'L'], served by real instances on fake threads. */
export class Served {
  readonly scheduler: Scheduler
  readonly observers = new Observers()
  failure: string | null = null
  /** Whether it is to serve. */
  wanted = true
  readonly scaling: Scaling
  readonly #house: House
  readonly #instances: ModelInstances
  readonly #parser: FeedParser
  /** Where the next instance is put; the place with the fewest without one. */
  #next: Place | null = null

  private constructor(
    house: House,
    name: string,
    places: readonly Place[],
    config: Omit<ModelConfig, 'path'>,
  ) {
    const count = Math.max(1, places.length)
    const resolved = resolveConfig(name, {
      path: `${name}.onnx`,
      maxBatchSize: 4,
      instanceGroup: [{ kind: 'cpu', count }],
      ...config,
    })
    const value = (of: string) => ({ name: of, type: 'float32' as const, shape: ['N', 'L'] })
    const joining = new Joining(
      name,
      { ...resolved, checkRows: false },
      {
        inputs: [value('x')],
        outputs: [value('y')],
        properties: null,
        unservableOutputs: [],
        executionProviders: [],
      },
    )
    this.#house = house
    this.#parser = new FeedParser(joining.stacked)
    this.scheduler = new Scheduler({
      joining, observed: new ObservedRequests({ name, version: 1, metadata: joining.stacked, batching: null }, this.observers, resolved.preserveOrdering), rowCheck: null, padding: null, costs: null, config: resolved, runTimes: new RunTimes(), instances: count,
      clock: house.clock, keepAlive: house.keepAlive, gaveUp: (reason) => void (this.failure = reason),
    }) // prettier-ignore
    const host = new FakeHost(
      house.clock,
      places,
      sharedBuffer,
      (apartFrom) => this.#choose(apartFrom).worker,
      house.threads,
    )
    this.#instances = new ModelInstances(name, resolved, host, () => this.wanted && this.failure === null)
    this.scaling = new Scaling(resolved, this.#instances, this.scheduler, warmedAgain())
  }

  /** Loads it with an instance on each of the places. */
  static async on(
    house: House,
    name: string,
    places: readonly Place[],
    config: Omit<ModelConfig, 'path'> = {},
  ): Promise<Served> {
    const model = new Served(house, name, places, config)
    await model.#instances.open()
    await model.#serve()
    return model
  }

  /** Gives it one more instance. */
  async joins(place: Place): Promise<void> {
    this.#next = place
    await this.#instances.open([
      {
        beside: { worker: place.worker, placement: { kind: 'cpu', gpu: 0, intraOpNumThreads: 1 }, group: 0 },
        count: 1,
      },
    ])
    await this.#serve()
  }

  /** Has it have so many instances. */
  scale(count: number): Promise<void> {
    return this.scaling.scale(undefined, count)
  }

  get instances(): Instance[] {
    return [...this.scheduler.instances]
  }

  get sessions(): WorkerSession[] {
    return this.#instances.serving.map(({ session }) => session)
  }

  /** Gives everything back; nothing may run. */
  async close(): Promise<void> {
    this.wanted = false
    await this.scaling.stop()
    await this.#instances.close()
  }

  async #serve(): Promise<void> {
    await this.#instances.warm(warmedAgain())
    this.#instances.serve(this.scheduler)
  }

  #choose(apartFrom: ReadonlySet<Worker>): Place {
    const [least] = this.#house.places
      .filter(({ worker }) => !worker.threads.givenUp)
      .toSorted(
        (a, b) =>
          Number(apartFrom.has(a.worker)) - Number(apartFrom.has(b.worker)) ||
          a.worker.sessions - b.worker.sessions,
      )
    const place = this.#next ?? least
    this.#next = null
    if (place === undefined) throw new ThreadEndedError()
    return place
  }

  /** Sends a request whose rows hold `value` in all `length` places. */
  send(
    value: number,
    options: InferOptions & { rows?: number; length?: number; preparation?: Preparation } = {},
  ): Sent {
    const { rows = 1, length = 4, preparation, ...rest } = options
    const { scheduler } = this
    const { maxBatchSize } = scheduler.metadata
    const feeds = {
      x: {
        type: 'float32' as const,
        dims: [rows, length],
        data: new Float32Array(rows * length).fill(value),
      },
    }
    const parsed = {
      ...this.#parser.parse(feeds as never, rows > maxBatchSize),
      ...(preparation && { preparation }),
    }
    const level = scheduler.levels.of(rest.priority)
    const { promise, resolve, reject } = deferred<ReportedOutputs<Outputs>>()
    const settle =
      <T>(then: (value: T) => void) =>
      (outcome: T) => {
        sent.settlements++
        then(outcome)
      }
    const given = { ...noOptions, report: true } as const
    const ends = [settle(resolve as never), settle(reject)] as const
    const request =
      parsed.rows > maxBatchSize
        ? new SplitRequest(scheduler.metadata, parsed, maxBatchSize, level, given, ...ends)
        : new InferRequest(parsed, level, given, ...ends)
    const sent: Sent = { request, answer: promise, settlements: 0 }
    promise.catch(() => {})
    const { observed, clock } = scheduler
    if (observed.by.observer !== null)
      observed.begun(
        request,
        { ...given, ...rest, outputs: null, sequence: undefined } as CheckedOptions,
        clock.nowMs(),
      )
    scheduler.submit(request, {
      timeoutMs: rest.timeoutMs,
      deadlineMs: rest.deadlineMs,
      maxRunMs: rest.maxRunMs,
      signal: rest.signal,
    })
    return sent
  }
}

/** Lets everything happen that needs no time: promises settle, immediates come. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
}

/** What became of it so far: the code of its error, its abort reason, `'waits'`, or the first value of its answer. */
export async function fate({ answer }: Sent): Promise<unknown> {
  const waits = settled().then(() => 'waits')
  const ended = answer.then(
    ({ outputs }) => (outputs.y!.data as Float32Array)[0],
    (reason: { code?: string }) => reason.code ?? reason,
  )
  return Promise.race([ended, waits])
}

export const fates = (all: readonly Sent[]): Promise<unknown[]> => Promise.all(all.map(fate))
