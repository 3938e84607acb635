import { diag } from '@opentelemetry/api'
import type { RequestObservation, RequestObserver } from '../../observe/request-observer.ts'

/** Keeps from the engine what samplers, processors and readers throw that are not ours: `diag` is told of it, as of all that fails in OpenTelemetry. */
export function contained(observer: RequestObserver): RequestObserver {
  return {
    begun: (model, facts) => observationOf(() => observer.begun(model, facts)),
    batchBegan: (batch) => tried(() => observer.batchBegan(batch)),
    batchEnded: (batch) => tried(() => observer.batchEnded(batch)),
  }
}

/** An observation whose request is settled whatever it does. */
class Contained implements RequestObservation {
  readonly #of: RequestObservation

  constructor(of: RequestObservation) {
    this.#of = of
  }

  child(...of: Parameters<RequestObservation['child']>): RequestObservation | null {
    return observationOf(() => this.#of.child(...of))
  }

  ran(...of: Parameters<RequestObservation['ran']>): void {
    tried(() => this.#of.ran(...of))
  }

  shared(...of: Parameters<RequestObservation['shared']>): void {
    tried(() => this.#of.shared(...of))
  }

  passed(...of: Parameters<RequestObservation['passed']>): void {
    tried(() => this.#of.passed(...of))
  }

  ended(...of: Parameters<RequestObservation['ended']>): void {
    tried(() => this.#of.ended(...of))
  }
}

function observationOf(begin: () => RequestObservation | null): RequestObservation | null {
  const observation = tried(begin) ?? null
  return observation === null ? null : new Contained(observation)
}

function tried<T>(tell: () => T): T | undefined {
  try {
    return tell()
  } catch (error) {
    try {
      diag.error('zerohop: what was told to OpenTelemetry has thrown', error)
    } catch {
      // Neither does a logger of theirs.
    }
    return undefined
  }
}
