import { runScope } from '../base/async-context.ts'
import {
  batchChannel,
  channelObserver,
  requestChannel,
  type ObservedModel,
  type ObservedRun,
  type RequestFacts,
  type RequestObservation,
  type RequestObserver,
  type SharedAnswer,
} from './request-observer.ts'

/** A request that a function runs for, as observers know it. */
export class Asker {
  readonly by: Observers
  /** `null` for a request that is not observed. */
  readonly observation: RequestObservation | null

  constructor(by: Observers, observation: RequestObservation | null) {
    this.by = by
    this.observation = observation
  }
}

/** The observers of one engine. */
export class Observers {
  #all: readonly RequestObserver[] = []
  #observer: RequestObserver | null = null
  /** The same, with the subscribers of the process's channels. */
  #withChannels: RequestObserver = channelObserver

  /** All of them as one; `null` while there is none. A request asks nothing else. */
  get observer(): RequestObserver | null {
    return requestChannel.hasSubscribers || batchChannel.hasSubscribers ? this.#withChannels : this.#observer
  }

  /** The observation of the request for which a function makes one now: `null` when that is not observed, `undefined` for a request of a caller. */
  get parent(): RequestObservation | null | undefined {
    const scope = runScope.getStore()
    if (scope === undefined || scope.isOver || !(scope.asker instanceof Asker) || scope.asker.by !== this)
      return undefined
    return scope.asker.observation
  }

  add(observer: RequestObserver): void {
    if (!this.#all.includes(observer)) this.#become([...this.#all, observer])
  }

  /** The observer gets no further requests; of those it has begun it gets the end. */
  remove(observer: RequestObserver): void {
    this.#become(this.#all.filter((other) => other !== observer))
  }

  #become(all: readonly RequestObserver[]): void {
    this.#all = all
    this.#observer = asOne(all)
    this.#withChannels = asOne([...all, channelObserver])!
  }
}

function asOne(all: readonly RequestObserver[]): RequestObserver | null {
  if (all.length < 2) return all[0] ?? null
  return {
    begun: (model, facts) => together(all.flatMap((observer) => observer.begun(model, facts) ?? [])),
    batchBegan(batch) {
      for (const observer of all) observer.batchBegan?.(batch)
    },
    batchEnded(batch) {
      for (const observer of all) observer.batchEnded?.(batch)
    },
  }
}

class SeveralObservations implements RequestObservation {
  readonly #all: readonly RequestObservation[]

  constructor(all: readonly RequestObservation[]) {
    this.#all = all
  }

  child(model: ObservedModel, facts: RequestFacts): RequestObservation | null {
    return together(this.#all.flatMap((observation) => observation.child(model, facts) ?? []))
  }

  decoded(data: ReadonlyMap<number, unknown>): void {
    for (const observation of this.#all) observation.decoded?.(data)
  }

  ran(run: ObservedRun): void {
    for (const observation of this.#all) observation.ran(run)
  }

  shared(answer: SharedAnswer): void {
    for (const observation of this.#all) observation.shared(answer)
  }

  passed(begunAtMs: number, doneAtMs: number): void {
    for (const observation of this.#all) observation.passed?.(begunAtMs, doneAtMs)
  }

  ended(succeeded: boolean, reason: unknown, answer: unknown): void {
    for (const observation of this.#all) observation.ended(succeeded, reason, answer)
  }
}

function together(all: readonly RequestObservation[]): RequestObservation | null {
  return all.length > 1 ? new SeveralObservations(all) : (all[0] ?? null)
}
