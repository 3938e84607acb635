/** A promise that is resolved from outside; resolving it again does nothing. */
export class Ending {
  readonly promise: Promise<void>
  readonly resolve: () => void

  constructor() {
    let resolvePromise!: () => void
    this.promise = new Promise((resolve) => (resolvePromise = resolve))
    this.resolve = resolvePromise
  }
}
