import { ThreadEndedError, type Executor } from './executors/executor.ts'

interface Task {
  /** For whom it is; `null` for nobody who might withdraw it. */
  readonly owner: object | null
  /** The thread for which it is meant; `null` for whichever there is. */
  readonly thread: Executor | null
  run(executor: Executor): Promise<void>
  fail(reason: Error): void
}

/**
 * What a worker is asked beside batches: to open, try and close sessions. One at a time and only while it has nothing
 * else to do, so that none stands in the way of batches for longer than itself.
 */
export class WorkerTasks {
  #waiting: Task[] = []
  #running: Task | null = null
  /** Whether the next turn is a task's, where batches wait as well: they take turns. */
  isTurn = true

  /** Whether one is under way. */
  get running(): boolean {
    return this.#running !== null
  }

  /** For whom one is under way; `null` for nobody. */
  get runningFor(): object | null {
    return this.#running?.owner ?? null
  }

  get waiting(): boolean {
    return this.#waiting.length > 0
  }

  /** Adds a task; the promise settles as what `run` gives, and rejects when its thread is gone or it is withdrawn before. */
  add<T>(owner: object | null, thread: Executor | null, run: (executor: Executor) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({
        owner,
        thread,
        run: (executor) => run(executor).then(resolve, reject),
        fail: reject,
      })
    })
  }

  /** Starts the next one; `done` is called when it has ended, however that was. */
  start(executor: Executor, done: (owner: object | null) => void): void {
    const task = this.#waiting.shift()!
    this.#running = task
    this.isTurn = false
    void task.run(executor).then(() => {
      this.#running = null
      done(task.owner)
    })
  }

  /** Rejects those that wait for a thread that is gone. */
  lost(thread: Executor): void {
    this.#reject((task) => task.thread === thread)
  }

  /** Rejects those of an owner. */
  withdraw(owner: object): void {
    this.#reject((task) => task.owner === owner)
  }

  /** Rejects all that wait. */
  clear(): void {
    this.#reject(() => true)
  }

  #reject(which: (task: Task) => boolean): void {
    const gone = this.#waiting.filter(which)
    this.#waiting = this.#waiting.filter((task) => !which(task))
    for (const { fail } of gone) fail(new ThreadEndedError())
  }
}
