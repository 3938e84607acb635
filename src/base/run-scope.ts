import { AsyncLocalStorage } from 'node:async_hooks'

/** A run of a function of the application's, as seen from within. */
export interface RunScope {
  /** For whom it is; whoever has put it there knows of what kind. */
  readonly asker: object
  /** What goes on behind it is not part of it. */
  isOver: boolean
}

/** The run that the code of a function is called by. Nothing enters it, and it costs nothing, while nobody looks on at an engine. */
export const runScope = new AsyncLocalStorage<RunScope | undefined>()
