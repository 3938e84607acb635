import { channel, type Channel } from 'node:diagnostics_channel'
import { EventEmitter } from 'node:events'
import { invalidArgument } from '../errors.ts'

/** A model has come to another state. */
export interface ModelEvent {
  /**
   * `ready`: every instance is open and warmed. `failed`: it could not be loaded, or its workers died repeatedly; see
   * `reason`. `draining`: it takes no more requests and finishes those accepted. `closed`: everything is released.
   */
  readonly type: 'ready' | 'failed' | 'draining' | 'closed'
  /** The name it was loaded under. */
  readonly model: string
  /** Why, in words; only of `failed`. */
  readonly reason?: string
}

/** Something happened to a worker thread. */
export interface WorkerEvent {
  /**
   * `started`: it serves. `lost`: it died, or the thread that was to replace it did. `restored`: another thread has
   * taken its place, and opens the sessions again. `failed`: no thread could be had, and no other is tried.
   */
  readonly type: 'started' | 'lost' | 'restored' | 'failed'
  /** Its device and a number, which threads that replace it keep: `cpu_0`, `cuda:1_0`. */
  readonly worker: string
  /** Why, in words; only of `lost` and `failed`. */
  readonly reason?: string
}

/** What `engine.on()` listens to, by name. */
export interface EngineEvents {
  model: ModelEvent
  worker: WorkerEvent
}

type Name = keyof EngineEvents
type Listener<N extends Name> = (event: EngineEvents[N]) => void

const channels: Record<Name, Channel> = { model: channel('zerohop:model'), worker: channel('zerohop:worker') }

/**
 * Tells listeners of an engine, and subscribers of the channels `zerohop:model` and `zerohop:worker`, what happens. They
 * are called in a microtask of their own, never in the middle of the engine's work; what one throws is an uncaught
 * exception, as from any callback of Node, and neither the engine nor another listener notices.
 */
export class EventHub {
  readonly #emitter = new EventEmitter()

  on<N extends Name>(name: N, listener: Listener<N>): void {
    this.#emitter.on(known(name), callable(listener))
  }

  once<N extends Name>(name: N, listener: Listener<N>): void {
    this.#emitter.once(known(name), callable(listener))
  }

  off<N extends Name>(name: N, listener: Listener<N>): void {
    this.#emitter.off(known(name), callable(listener))
  }

  emit<N extends Name>(name: N, event: EngineEvents[N]): void {
    const { [name]: published } = channels
    if (this.#emitter.listenerCount(name) === 0 && !published.hasSubscribers) return
    queueMicrotask(() => {
      for (const listener of this.#emitter.rawListeners(name)) call(listener as Listener<N>, event)
      if (published.hasSubscribers) published.publish(event)
    })
  }
}

function call<N extends Name>(listener: Listener<N>, event: EngineEvents[N]): void {
  try {
    listener(event)
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}

function known<N extends Name>(name: N): N {
  if (Object.hasOwn(channels, name)) return name
  throw invalidArgument('event', Object.keys(channels).join(' or '), name)
}

function callable<L>(listener: L): L & (() => void) {
  if (typeof listener === 'function') return listener as L & (() => void)
  throw invalidArgument('listener', 'a function', listener)
}
