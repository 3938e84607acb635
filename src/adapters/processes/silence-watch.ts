/** How long before a limit it is asked whether the server is there: at the earliest. */
const askedBeforeMs = 250
/** What a server that is busy may take to say something. */
const patienceMs = 50
/** How often a server is asked again that is late with an answer, and says something. */
const againMs = 1000

/**
 * Looks whether a serving process says anything while requests with limits wait for it. One that is stopped, or that is held up, does not
 * keep them: what it would have rejected is rejected here. As long as it says something the limits are its own.
 */
export class SilenceWatch {
  readonly #ask: () => void
  /** How often something was heard. */
  #heard = 0
  #heardWhenAsked = -1

  /** @param ask has the server say something. */
  constructor(ask: () => void) {
    this.#ask = ask
  }

  /** The server has said something. */
  heard(): void {
    this.#heard++
  }

  /**
   * Calls `onSilence` when the limit has passed and nothing is heard of the server.
   *
   * @returns ends that.
   */
  watch(limitMs: number, onSilence: () => void): () => void {
    const endMs = performance.now() + limitMs
    let timer: NodeJS.Timeout
    const ask = () => {
      const heard = this.#heard
      if (this.#heardWhenAsked !== heard) {
        this.#heardWhenAsked = heard
        this.#ask()
      }
      const look = () => {
        if (this.#heard === heard) onSilence()
        else timer = setTimeout(ask, againMs)
      }
      timer = setTimeout(look, Math.max(patienceMs, endMs - performance.now()))
    }
    timer = setTimeout(ask, Math.max(limitMs / 2, limitMs - askedBeforeMs))
    return () => clearTimeout(timer)
  }
}
