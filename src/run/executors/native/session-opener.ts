import type { NativeBinding, NativeCompletionDetails, NativeRunLoop } from '../../../native/native-binding.ts'
import { type OpeningAhead, bytesId } from '../executor.ts'
import {
  completionHub,
  type CompletionHub,
  type LoopOwner,
  guardLoop,
  unguardLoop,
} from './completion-hub.ts'
import type { SessionSetting } from './session-settings.ts'

/** Threads of an isolate that open at once; more openings wait behind those. */
const mostThreads = 4
/** How long a thread may take to end an opening before it is detached, in milliseconds. */
const endLimitMs = 1000

/** What is being opened. */
interface Opening {
  resolve(): void
  reject(reason: Error): void
}

/**
 * A thread of the addon's that opens sessions, and runs nothing. It is started by the application's thread and waits for the
 * next opening as long as that lives: memory that it has set free is used again by the same thread alone.
 */
class SessionOpener implements LoopOwner {
  readonly niceIncrement: number
  readonly #binding: NativeBinding
  readonly #hub: CompletionHub
  readonly #loop: NativeRunLoop
  /** In the order in which they are done: the first is under way. */
  readonly #openings = new Map<number, Opening>()
  #lastId = 0

  constructor(binding: NativeBinding, niceIncrement: number) {
    this.niceIncrement = niceIncrement
    this.#binding = binding
    this.#hub = completionHub(binding)
    this.#loop = new binding.RunLoop(this.#hub.native)
    this.#hub.add(this.#loop.id, this)
    guardLoop(binding, this.#loop)
    binding.startLoop(this.#loop.id, niceIncrement)
  }

  /** Openings that are not done. */
  get underWay(): number {
    return this.#openings.size
  }

  open(model: string | SharedArrayBuffer, settings: readonly SessionSetting[]): OpeningAhead {
    const id = ++this.#lastId // of the question, and of the session
    const isPath = typeof model === 'string'
    this.#loop.open(
      id,
      id,
      isPath ? model : new Uint8Array(model),
      isPath ? 0 : bytesId(model),
      settings,
      true,
    )
    this.#loop.enterPages(0, id) // behind the opening; its answer is not waited for
    const opened = new Promise<void>((resolve, reject) => this.#openings.set(id, { resolve, reject }))
    let held = true
    const release = (): void => {
      if (!held) return
      held = false
      if (this.#openings.has(id)) this.#cancel(id)
      this.#loop.close(0, id) // behind both
    }
    return { opened, release }
  }

  batchDone(): void {} // it is given none

  answered(id: number, _runMs: number, details: NativeCompletionDetails | null): void {
    const opening = this.#openings.get(id)
    this.#openings.delete(id)
    if (details?.error == null) opening?.resolve()
    else opening?.reject(new Error(details.error))
  }

  loopEnded(): void {
    this.#hub.remove(this.#loop.id)
    unguardLoop(this.#loop)
    this.#loop.dispose()
  }

  #cancel(id: number): void {
    this.#loop.cancelQuestion(id)
    const [underWay] = this.#openings.keys()
    if (id !== underWay) return this.#withdraw(id)
    const timer = setTimeout(() => this.#leave(id), endLimitMs).unref()
    const { resolve, reject } = this.#openings.get(id)!
    const ended = (): void => clearTimeout(timer)
    this.#openings.set(id, {
      resolve: () => (ended(), resolve()),
      reject: (reason) => (ended(), reject(reason)),
    })
  }

  /** One that waits behind another says nothing of the thread, which is not to be left for it. */
  #withdraw(id: number): void {
    this.#openings.get(id)!.reject(new Error('Its opening was cancelled.'))
    this.#openings.delete(id)
  }

  /** The thread is detached, and ends when it comes back. What waits for it is opened by those who asked. */
  #leave(id: number): void {
    const left = this.#openings.get(id)
    if (left === undefined) return
    forget(this.#binding, this)
    if (this.#loop.stop()) this.loopEnded()
    this.#openings.delete(id)
    left.reject(new Error('Its opening did not end.'))
    for (const { resolve } of this.#openings.values()) resolve()
    this.#openings.clear()
  }
}

const openersOf = new WeakMap<NativeBinding, SessionOpener[]>()

/**
 * Opens a session on a thread where nothing is run; see {@link Executor.openAhead}.
 *
 * @param niceIncrement of that thread, and of those that ONNX Runtime starts for the session.
 */
export function openAhead(
  binding: NativeBinding,
  niceIncrement: number,
  model: string | SharedArrayBuffer,
  settings: readonly SessionSetting[],
): OpeningAhead {
  const all = openersOf.get(binding) ?? []
  openersOf.set(binding, all)
  const openers = all.filter((opener) => opener.niceIncrement === niceIncrement)
  const [least] = openers.toSorted((a, b) => a.underWay - b.underWay)
  if (least !== undefined && (least.underWay === 0 || openers.length === mostThreads))
    return least.open(model, settings)
  const added = new SessionOpener(binding, niceIncrement)
  all.push(added)
  return added.open(model, settings)
}

function forget(binding: NativeBinding, opener: SessionOpener): void {
  openersOf.set(
    binding,
    openersOf.get(binding)!.filter((other) => other !== opener),
  )
}
