import { HttpFailure } from './http-failure.ts'

/** Bytes of the bodies of all requests, of which there may be so many at once. */
export class HeldBytes {
  readonly #most: number
  #held = 0

  constructor(most: number) {
    this.#most = most
  }

  /** @throws HttpFailure of status 503 where there is no room. */
  take(bytes: number): void {
    if (this.#held + bytes > this.#most)
      throw new HttpFailure(
        503,
        `The requests that are under way hold ${this.#held} of ${this.#most} bytes (maxHeldBytes). Try again when some are answered.`,
        { 'retry-after': '1', connection: 'close' },
      )
    this.#held += bytes
  }

  giveBack(bytes: number): void {
    this.#held -= bytes
  }
}
