import type { ModelOrigin } from '../../options/engine-options.ts'
import type { OpenOptions } from '../../options/session-options.ts'

/** Notes on a session, by what they are about; see `WorkerSession.note`. */
export type SessionNotes = Readonly<Record<string, string>>

/** What a session is opened from. */
export interface Opening {
  /** A path, or bytes. */
  readonly model: string | SharedArrayBuffer
  readonly options: OpenOptions
  /** What was found out of the model before. */
  readonly notes: SessionNotes
  /** The model as it is, for when its compiled form cannot be opened. */
  readonly original: OriginalModel | undefined
}

/** See {@link Opening.original}. */
export interface OriginalModel {
  readonly model: string | SharedArrayBuffer
  readonly options: OpenOptions
  /** Whether what was made from it is still what was checked: asked once that is open. */
  isStillMade(): boolean
  /** Told when it had to be opened. */
  used(reason: string): void
}

/** A model that its sessions can be opened from. */
export interface PreparedModel {
  readonly origin: ModelOrigin
  /** @param options those that a session of the model as it is would have. */
  opening(model: string | SharedArrayBuffer, options: OpenOptions): Opening
  /** Told what was found out of it while it was loaded. */
  learnt(notes: SessionNotes): void
}

/** A model that is opened as it is. */
export function asItIs(reason: string): PreparedModel {
  return {
    origin: { compiled: false, reason },
    opening: (model, options) => ({ model, options, notes: {}, original: undefined }),
    learnt: () => {},
  }
}
