import { resolve } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { modelNames } from './read-repository.ts'
import { typed, WatchedModel, type WatchTarget } from './watched-model.ts'
import type { ResolvedWatch } from './watch-options.ts'

/**
 * Keeps an engine in step with a model repository, by looking at its files again and again: what the system tells of changes
 * by itself does not come through network file systems and containers. It holds no process alive.
 */
export class RepositoryWatch {
  readonly #repository: string
  readonly #names: readonly string[] | undefined
  readonly #options: ResolvedWatch
  readonly #clock: Clock
  readonly #target: WatchTarget
  readonly #models = new Map<string, WatchedModel>()
  #timer: unknown = null
  /** Ends the wait of {@link start}. */
  #goOn: () => void = () => {}
  #looking: Promise<void> = Promise.resolve()
  /** Models that are loaded after the others. */
  readonly #waiting = new Set<string>()
  #oneMoreWaits: () => void = () => {}
  /** What they wait for; `null` where none does. */
  #othersDone: Promise<void> | null = null
  #unreadable: string | null = null
  #closed = false

  /** @param names of the models to watch; `undefined` for all. */
  constructor(
    path: string,
    names: readonly string[] | undefined,
    options: ResolvedWatch,
    clock: Clock,
    target: WatchTarget,
  ) {
    this.#repository = resolve(path)
    this.#names = names
    this.#options = options
    this.#clock = clock
    this.#target = { ...target, tell: (event) => (this.#closed ? undefined : target.tell(event)) }
  }

  /**
   * Loads what is there, and begins to watch it. What has just been changed is given as long as it takes to be old enough; a
   * model that is still being copied then comes later.
   *
   * @throws InferenceError `ERR_MODEL_NOT_FOUND` when there is no such folder.
   */
  async start(): Promise<void> {
    const nowMs = Date.now()
    await this.#look(await this.#present(), (changedAtMs) => changedAtMs <= nowMs - this.#options.debounceMs)
    if ([...this.#models.values()].some(({ isYoung }) => isYoung)) {
      await this.#passed(this.#options.debounceMs)
      await this.#look(await this.#present(), () => false)
    }
    await this.done()
    this.#schedule()
  }

  /** Resolves when what this look has begun for other models is done, but for what waits for that as well; for all of those at once. */
  async others(name: string): Promise<void> {
    this.#waiting.add(name)
    this.#oneMoreWaits()
    await this.#looking
    await (this.#othersDone ??= this.#untilOthersAreDone())
    this.#waiting.delete(name)
  }

  async #untilOthersAreDone(): Promise<void> {
    const begun = [...this.#models.values()].map((model) => ({ model, work: model.work }))
    for (;;) {
      const left = begun.flatMap(({ model, work }) =>
        work === null || model.work !== work || this.#waiting.has(model.name) ? [] : [work],
      )
      if (left.length === 0) break
      await Promise.race([...left, new Promise<void>((resolve) => (this.#oneMoreWaits = resolve))])
    }
    this.#othersDone = null
  }

  /** Looks at all models once, and begins what is to be done for them. */
  async look(): Promise<void> {
    try {
      await this.#look(await this.#present(), () => false)
      this.#unreadable = null
    } catch (error) {
      const { message } = error as Error
      if (message === this.#unreadable) return // which has been told
      this.#unreadable = message
      this.#target.tell({ type: 'failed', model: '', error: typed('', error as Error) })
    }
  }

  /** Names of the models that it has loaded. */
  get loaded(): string[] {
    return [...this.#models.values()].flatMap(({ name, isLoaded }) => (isLoaded ? [name] : []))
  }

  /** Resolves when what was begun is done. */
  async done(): Promise<void> {
    await Promise.all([...this.#models.values()].map(({ work }) => work))
  }

  /** Ends the watch; what is loaded stays. */
  close(): void {
    this.#closed = true
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer)
    this.#timer = null
    this.#goOn()
  }

  /** Resolves once so long has passed by the clock: a timer's loop may be behind it, and fire too soon. */
  async #passed(ms: number): Promise<void> {
    const endMs = this.#clock.nowMs() + ms
    for (let left = ms; left > 0 && !this.#closed; left = endMs - this.#clock.nowMs()) await this.#wait(left)
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#goOn = resolve
      if (this.#closed) resolve()
      else this.#timer = this.#clock.setTimer(resolve, ms)
    })
  }

  async #present(): Promise<string[]> {
    const found = await modelNames(this.#repository)
    return this.#names === undefined ? found : found.filter((name) => this.#names!.includes(name))
  }

  #look(present: readonly string[], isSettled: (changedAtMs: number) => boolean): Promise<void> {
    const look = this.#lookAtAll(present, isSettled)
    this.#looking = look.catch(() => {})
    return look
  }

  async #lookAtAll(present: readonly string[], isSettled: (changedAtMs: number) => boolean): Promise<void> {
    for (const name of present) {
      if (!this.#models.has(name))
        this.#models.set(name, new WatchedModel(this.#repository, name, this.#target))
    }
    for (const model of this.#models.values()) {
      if (this.#closed) return
      await model.look(this.#clock.nowMs(), this.#options.debounceMs, isSettled)
      if (model.gone) this.#models.delete(model.name)
    }
  }

  /** One look after the other, however long they take. */
  #schedule(): void {
    if (this.#closed) return
    this.#timer = this.#clock.setTimer(
      () => void this.look().then(() => this.#schedule()),
      this.#options.pollMs,
    )
  }
}
