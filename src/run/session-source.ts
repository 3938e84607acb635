import type { ResolvedMemory } from '../options/memory-options.ts'
import type { OpenOptions } from '../options/session-options.ts'
import { ThreadEndedError, type Executor, type OpenedSession } from './executors/executor.ts'
import type { FileStamp } from '../base/files.ts'
import { fileOf, isSame, type SessionState } from './session-state.ts'

/** What a session is opened from. */
export interface SessionSource {
  /** A path, or bytes. */
  readonly model: string | SharedArrayBuffer
  readonly options: OpenOptions
  readonly memory: ResolvedMemory
  /** Longest time of a run of a sample; 0 for none. */
  readonly maxRunMs: number
  /** What is known of it beforehand. */
  readonly notes?: Readonly<Record<string, string>>
  /**
   * What it was made from, to be opened where the model cannot be, or is not what was checked by the time it is open (`isStillMade`); told
   * when it was.
   */
  readonly original?:
    | (Pick<SessionSource, 'model' | 'options'> & { isStillMade(): boolean; used(reason: string): void })
    | undefined
}

/**
 * Opens a session from a source, or else from what that was made from.
 *
 * @param isWanted whether it is not to be closed meanwhile.
 */
export async function openFrom(
  executor: Executor,
  id: number,
  { model, options, original }: SessionSource,
  isWanted: () => boolean,
): Promise<[OpenedSession, SessionState]> {
  const file = fileOf((original ?? { model }).model)
  let isOriginal = original === undefined
  const openOriginal = (reason: string): Promise<OpenedSession> => {
    original!.used(reason)
    isOriginal = true
    return executor.open(id, original!.model, original!.options)
  }
  let opened = await executor.open(id, model, options).catch((error: Error) => {
    if (original === undefined || error instanceof ThreadEndedError || !isWanted()) throw error
    return openOriginal(error.message)
  })
  if (!isOriginal && !original!.isStillMade()) {
    await executor.close(id)
    if (!isWanted()) throw new ThreadEndedError()
    opened = await openOriginal('it was changed while it was opened')
  }
  return [
    opened,
    {
      values: JSON.stringify([opened.inputs, opened.outputs]),
      file,
      shared: opened.shared ?? null,
      isOriginal,
    },
  ]
}

/**
 * A file that has become another model's since would answer beside instances of the first, and be fed what was checked for that.
 *
 * @param first state of the session that was opened first.
 * @param by where the session was open before, its file's rights may be others by now.
 */
export function checkSame(
  first: SessionState,
  state: SessionState,
  { model, original }: SessionSource,
  by: keyof FileStamp,
): void {
  const now = state.isOriginal ? fileOf((original ?? { model }).model) : state.file
  if (state.file?.anything !== now?.anything)
    throw new Error('its file has changed while it was opened; load it again')
  if (!isSame(first, state, by)) throw new Error('its file has changed since it was loaded; load it again')
}
