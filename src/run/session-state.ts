import { stampOf, type FileStamp } from '../base/files.ts'

/** What a session is of. */
export interface SessionState {
  /** Its inputs and outputs, as text. */
  readonly values: string
  /** Of the model as it is; `null` for bytes. */
  readonly file: FileStamp | null
  /** See {@link OpenedSession.shared}; `null` for one that is not, or is of another device. */
  readonly shared: number | null
  /** Whether it was opened from that, and not from what was made from it. */
  readonly isOriginal: boolean
}

/** The file that a session is opened from, as it is now; `null` for bytes. */
export function fileOf(model: string | SharedArrayBuffer): FileStamp | null {
  return typeof model === 'string' ? stampOf(model) : null
}

/** Whether two sessions are of one model. */
export function isSame(one: SessionState, other: SessionState, by: keyof FileStamp): boolean {
  const isShared =
    by === 'content' ||
    one.isOriginal !== other.isOriginal ||
    one.shared === null ||
    other.shared === null ||
    one.shared === other.shared
  const ofFile = one.isOriginal || other.isOriginal // else whatever that holds by now
  return isShared && one.values === other.values && (!ofFile || one.file?.[by] === other.file?.[by])
}
