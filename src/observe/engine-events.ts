import { channel, type Channel, type ChannelListener } from 'node:diagnostics_channel'
import { EventEmitter } from 'node:events'
import { inThisContext, outsideContext } from '../base/async-context.ts'
import { describe, invalidArgument, type InferenceError } from '../errors.ts'
import type { SequenceId } from '../options/infer-options.ts'

/** A model has come to another state. */
export interface ModelEvent {
  /**
   * `ready`: every instance is open and warmed, and requests go there. `failed`: it could not be loaded, or its workers
   * died repeatedly; see `reason`. `draining`: it takes no more requests and finishes those accepted. `closed`: everything
   * is released. Of what is loaded again: `replaced` after `ready`, when what was loaded before has answered all it had
   * accepted, and is released; `notReplaced` instead, when that load failed or was aborted, and what was loaded before
   * serves on. `scaled`: it is ready still, with another number of `instances`. `joining`: it has been found out while it
   * serves whether its rows are independent; see `metadata.joining`.
   */
  readonly type:
    | 'ready'
    | 'failed'
    | 'draining'
    | 'closed'
    | 'replaced'
    | 'notReplaced'
    | 'scaled'
    | 'joining'
  /** The name it was loaded under. */
  readonly model: string
  /** The version of that name. */
  readonly version: number
  /** Why, in words; only of `failed` and `notReplaced`. */
  readonly reason?: string
  /** How many serve; only of `scaled`. */
  readonly instances?: number
}

/** A model repository that is watched has changed, and the engine with it. */
export interface RepositoryEvent {
  /**
   * `loaded`: a version that is new or was changed serves. `unloaded`: one that is gone has been released. `failed`: a model
   * cannot be read, or one of its versions not be loaded; what was loaded before serves on, and it is tried again once its
   * files have changed.
   */
  readonly type: 'loaded' | 'unloaded' | 'failed'
  /** The repository's folder. */
  readonly repository: string
  /** The name of the model's folder; `''` where the repository itself cannot be read. */
  readonly model: string
  /** Left out of what concerns the whole model. */
  readonly version?: number
  /** Why; only of `failed`. */
  readonly error?: InferenceError
}

/** Something happened to a worker thread. */
export interface WorkerEvent {
  /**
   * `started`: it serves. `lost`: it died, or the thread that was to replace it did. `restored`: another thread has
   * taken its place, and opens the sessions again. `failed`: no thread could be had, and no other is tried.
   */
  readonly type: 'started' | 'lost' | 'restored' | 'failed'
  /** Its device, or its function, and a number, which threads that replace it keep: `cpu_0`, `cuda:1_0`, `function tokenizer_0`. */
  readonly worker: string
  /** Why, in words; only of `lost` and `failed`. */
  readonly reason?: string
}

/** A file of traces could not be written; reported once for each file. Its traces are lost until it can be written again; requests go on as ever. */
export interface TraceEvent {
  /** There is no other. */
  readonly type: 'failed'
  /** Its path. */
  readonly file: string
  /** What the system said. */
  readonly reason: string
}

/** A sequence is over: nothing is kept of it any more, and its id is free. */
export interface SequenceEvent {
  /**
   * `ended`: its last request has come to its end, or its stream was ended. `idle`: it had no request for `maxSequenceIdleMs`.
   * `evicted`: it could not go on, as another was begun under its id, the worker that ran it died, it waited too long for a
   * place, or its model was unloaded or replaced; see `reason`.
   */
  readonly type: 'ended' | 'idle' | 'evicted'
  /** The name its model was loaded under. */
  readonly model: string
  /** The version of that name. */
  readonly version: number
  /** As its requests gave it, or its stream has it. */
  readonly sequenceId: SequenceId
  /** Why, in words; not of `ended`. */
  readonly reason?: string
}

/** What `engine.on()` listens to, by name. */
export interface EngineEvents {
  /** What becomes of versions of models. */
  model: ModelEvent
  /** What becomes of threads. */
  worker: WorkerEvent
  /** What a repository that is watched has brought. */
  repository: RepositoryEvent
  /** Files of traces that cannot be written. */
  trace: TraceEvent
  /** Sequences that are over. */
  sequence: SequenceEvent
}

type Name = keyof EngineEvents
type Listener<N extends Name> = (event: EngineEvents[N]) => void

const channels: Record<Name, Channel> = {
  model: ownChannel('zerohop:model'),
  worker: ownChannel('zerohop:worker'),
  repository: ownChannel('zerohop:repository'),
  trace: ownChannel('zerohop:trace'),
  sequence: ownChannel('zerohop:sequence'),
}

/**
 * Notifies the listeners of an engine, and subscribers of the channel of the event's name (`zerohop:model`), of events. They
 * are called in a microtask of their own, never in the middle of the engine's work; what one throws is an uncaught
 * exception, as from any callback of Node, and neither the engine nor another listener notices.
 */
export class EventHub {
  readonly #emitter = new EventEmitter()

  /** Adds a listener, which is called in the context it is added in. */
  on<N extends Name>(name: N, listener: Listener<N>): void {
    this.#emitter.on(known(name), named(inThisContext<[EngineEvents[N]]>(callable(listener)), listener))
  }

  once<N extends Name>(name: N, listener: Listener<N>): void {
    const call = inThisContext<[EngineEvents[N]]>(callable(listener))
    const onlyOnce: Listener<N> = named((event: EngineEvents[N]) => {
      this.#emitter.off(name, onlyOnce)
      call(event)
    }, listener)
    this.#emitter.on(known(name), onlyOnce)
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

/** As what an emitter takes away when it is asked for the listener. */
function named<N extends Name>(call: Listener<N>, listener: Listener<N>): Listener<N> {
  return Object.assign(call, { listener })
}

function known<N extends Name>(name: N): N {
  if (Object.hasOwn(channels, name)) return name
  throw invalidArgument('event', Object.keys(channels).join(' or '), name)
}

function callable<L>(listener: L): L & (() => void) {
  if (typeof listener === 'function') return listener as L & (() => void)
  throw invalidArgument('listener', 'a function', listener)
}

/**
 * A channel of this library. Its subscribers are called in the context in which they subscribed, and outside any context when they did so before
 * the library was loaded. Node itself would call them in the context of the publisher: that of one of the requests of a batch, say.
 */
export function ownChannel(name: string): Channel {
  const own = channel(name)
  const calls = new Map<ChannelListener, ChannelListener[]>()
  const bound = new WeakSet<ChannelListener>()
  // Node gives a channel another prototype with its first subscriber, and the one before with its last.
  const plain = (): Channel => Object.getPrototypeOf(own) as Channel
  const methods = {
    subscribe(listener: ChannelListener): void {
      // Node refuses it, too, but the channel counts as one with subscribers from then on.
      if (typeof listener !== 'function')
        throw new TypeError(`a subscriber of ${name}: expected a function, received ${describe(listener)}`)
      if (bound.has(listener)) return void plain().subscribe.call(own, listener) // called once more by the other prototype
      const call = inThisContext(listener)
      bound.add(call)
      calls.set(listener, [...(calls.get(listener) ?? []), call])
      plain().subscribe.call(own, call)
    },
    unsubscribe(listener: ChannelListener): boolean {
      const [call = listener, ...others] = calls.get(listener) ?? []
      if (others.length > 0) calls.set(listener, others)
      else calls.delete(listener)
      return Boolean(plain().unsubscribe.call(own, call))
    },
    publish(message: unknown): void {
      outsideContext(() => plain().publish.call(own, message))
    },
  }
  return Object.assign(own, methods)
}
