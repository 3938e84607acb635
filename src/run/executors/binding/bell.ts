/** The bell that workers ring on the application's thread when a batch is finished. */
export class Bell {
  readonly buffer: SharedArrayBuffer
  readonly #word: Int32Array

  constructor(buffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer
    this.#word = new Int32Array(buffer)
  }

  get count(): number {
    return Atomics.load(this.#word, 0)
  }

  ring(): void {
    Atomics.add(this.#word, 0, 1)
    Atomics.notify(this.#word, 0)
  }

  /** Resolves once the bell has rung since `count` was read; `undefined` when it has already. */
  heard(count: number): Promise<unknown> | undefined {
    const wait = Atomics.waitAsync(this.#word, 0, count)
    return wait.async ? wait.value : undefined
  }
}
