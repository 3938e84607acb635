import { FairShare, type Charge } from 'zerohop/internals'

/** What a run was charged with. */
export type TurnCharge = Charge<number>

/** As on the library's workers: where models share an instance, only runs as short as this are handed ahead. */
const handAheadBelowMs = 5

/** Whose turn it is on one instance: the only file that knows how the pool divides a worker among its models. */
export class FairTurns {
  readonly #shares = new FairShare<number>()

  constructor(models: number) {
    for (let model = 0; model < models; model++) this.#shares.join(model)
  }

  /** Says that a model may have requests. */
  activate(model: number): void {
    this.#shares.activate(model)
  }

  /** Says that a model has none. */
  deactivate(model: number): void {
    this.#shares.deactivate(model)
  }

  /** The model whose turn it is, or `null` when none has requests. */
  next(): number | null {
    return this.#shares.next()?.source ?? null
  }

  /** Whether the model whose turn it is may hand a batch to the instance while it is busy. */
  get mayHandAhead(): boolean {
    return this.#shares.size === 1 || (this.#shares.next()?.lastMs ?? Infinity) <= handAheadBelowMs
  }

  /** Charges a run about to start; `expectedMs` is 0 when nobody knows what it takes. */
  charge(model: number, expectedMs: number): TurnCharge {
    return this.#shares.charge(model, expectedMs)
  }

  /** Takes a charge back: its run did not start. */
  refund(charge: TurnCharge): void {
    this.#shares.refund(charge)
  }

  settle(charge: TurnCharge, tookMs: number): void {
    this.#shares.settle(charge, tookMs)
  }
}
