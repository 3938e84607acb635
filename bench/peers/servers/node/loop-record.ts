/** What is counted of a window of load, and said in the lines that the measuring process reads. */
export class LoopRecord {
  /** Since the level began, its warm-up included. */
  answers = 0
  #answered = 0
  #beganMs = Infinity
  #measuredMs = Infinity
  #onAnswer: (() => void) | null = null
  #nextSample = 1
  readonly #latenciesUs: number[] = []
  readonly #samples: { index: number; values: string }[] = []
  readonly #waiting = new Set<number>()

  begin(atMs = performance.now()): void {
    this.#beganMs = atMs
    say({ event: 'begin' })
  }

  /** The window is over. */
  measured(atMs = performance.now()): void {
    this.#measuredMs = atMs
    say({ event: 'measured' })
  }

  /** Of a closed loop. */
  answer(startedMs: number, index: number, output: Float32Array): void {
    this.answers++
    if (this.#beganMs !== Infinity && this.#measuredMs === Infinity) {
      this.#answered++
      this.#latenciesUs.push((performance.now() - startedMs) * 1000)
      this.#sample(index, output)
    }
    this.#onAnswer?.()
  }

  /** Of an open loop: what was meant to be asked within the window. */
  ask(intendedMs: number): void {
    this.#waiting.add(intendedMs)
  }

  answerTo(intendedMs: number, index: number, output: Float32Array): void {
    const nowMs = performance.now()
    if (nowMs >= this.#beganMs && nowMs < this.#measuredMs) this.#answered++
    if (!this.#waiting.delete(intendedMs)) return
    this.#latenciesUs.push((nowMs - intendedMs) * 1000)
    this.#sample(index, output)
  }

  /**
   * The moment when the next answers have come. Measured from one such moment to another, a slow model's whole batches are
   * counted over the time that they took.
   */
  nextAnswers(): Promise<void> {
    return new Promise((resolve) => {
      this.#onAnswer = () => {
        this.#onAnswer = null
        setImmediate(resolve)
      }
    })
  }

  end(): void {
    // What never came took this long at least.
    for (const intendedMs of this.#waiting) this.#latenciesUs.push((performance.now() - intendedMs) * 1000)
    const sorted = Float64Array.from(this.#latenciesUs).sort()
    const at = (fraction: number): number => sorted[Math.max(0, Math.ceil(fraction * sorted.length) - 1)] ?? 0
    say({
      event: 'end',
      answered: this.#answered,
      seconds: (this.#measuredMs - this.#beganMs) / 1000,
      p50Us: at(0.5),
      p90Us: at(0.9),
      p99Us: at(0.99),
      maxUs: at(1),
      failed: 0,
      unfinished: this.#waiting.size,
      samples: this.#samples,
    })
  }

  /** Ever rarer as they go on, so that they are from all of the window. */
  #sample(index: number, output: Float32Array): void {
    if (this.#latenciesUs.length < this.#nextSample) return
    this.#nextSample = Math.max(this.#latenciesUs.length + 1, Math.floor(this.#latenciesUs.length * 1.2))
    const { buffer, byteOffset, byteLength } = output
    this.#samples.push({ index, values: Buffer.from(buffer, byteOffset, byteLength).toString('base64') })
  }
}

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
