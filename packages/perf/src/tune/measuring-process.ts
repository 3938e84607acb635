import { systemClock, type Clock, OwnProgram } from 'zerohop/internals'
import { ownFile } from '../own-files.ts'
import type {
  FailedWord,
  LoadedWord,
  LoadTask,
  MeasuredWord,
  MeasureTask,
  MeasuringTask,
  MeasuringSettings,
  MeasuringWord,
  UnloadedWord,
  UnloadTask,
} from './measuring-messages.ts'
import { longestTimerMs } from './time-budget.ts'

/** What is asked to load and measure models; one task at a time. */
export interface Measuring {
  /** Whether it cannot be asked any more. */
  readonly hasEnded: boolean
  /** Asks it something; one that has not answered within the limit is ended, and has failed. */
  ask(task: LoadTask, limitMs: number): Promise<LoadedWord | FailedWord>
  ask(task: MeasureTask, limitMs: number): Promise<MeasuredWord | FailedWord>
  ask(task: UnloadTask, limitMs: number): Promise<UnloadedWord | FailedWord>
  /** Ends it at once; what it was asked fails. Resolves when nothing of it is left. */
  end(): Promise<void>
}

/** Where models are measured; tests have one that does not take its time. */
export interface MeasuringGround {
  readonly clock: Clock
  start(settings: MeasuringSettings): Measuring
}

/** Processes of this machine. */
export const processGround: MeasuringGround = {
  clock: systemClock,
  start: (settings) => new MeasuringProcess(settings),
}

/** A process that loads and measures models, one task after the other: what a configuration does to it, it does to no other. */
class MeasuringProcess implements Measuring {
  #program: OwnProgram<MeasuringWord> | null = null
  #settle: ((word: MeasuringWord) => void) | null = null
  #ended: FailedWord | null = null

  constructor(settings: MeasuringSettings) {
    try {
      this.#program = new OwnProgram<MeasuringWord>(
        ownFile('tune/measuring-child.js'),
        { args: [JSON.stringify(settings)] },
        {
          onWord: (word) => this.#settle?.(word),
          onFailure: (reason) => this.#end(`a process could not be started: ${reason}`),
          onEnd: ({ way, lastWords }) =>
            this.#end(`its process ended with ${way}${lastWords === '' ? '' : ` (${lastWords})`}`),
        },
      )
    } catch (error) {
      this.#end(`a process could not be started: ${(error as Error).message}`)
    }
  }

  get hasEnded(): boolean {
    return this.#ended !== null
  }

  /** Asks it something; one that has not answered within the limit is ended. */
  ask(task: LoadTask, limitMs: number): Promise<LoadedWord | FailedWord>
  ask(task: MeasureTask, limitMs: number): Promise<MeasuredWord | FailedWord>
  ask(task: UnloadTask, limitMs: number): Promise<UnloadedWord | FailedWord>
  ask(task: MeasuringTask, limitMs: number): Promise<MeasuringWord> {
    if (this.#ended !== null) return Promise.resolve(this.#ended)
    return new Promise((resolve) => {
      // Not a fraction of a millisecond before the time is over.
      const timer = setTimeout(
        () => this.#end(`it did not come to an end within ${Math.round(limitMs)} ms`, 'ERR_TOO_LONG'),
        Math.min(longestTimerMs, Math.ceil(limitMs)),
      )
      this.#settle = (word) => {
        clearTimeout(timer)
        this.#settle = null
        resolve(word)
      }
      this.#program!.send(task)
    })
  }

  async end(): Promise<void> {
    this.#end('it was ended')
    await this.#program?.killed()
  }

  #end(message: string, code: FailedWord['code'] = 'ERR_CRASHED'): void {
    this.#ended ??= { type: 'failed', code, message }
    this.#program?.kill()
    this.#settle?.(this.#ended)
  }
}
