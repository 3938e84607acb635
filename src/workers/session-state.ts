import { stampOf, type FileStamp } from '../regular-file.ts'

/** What a session is of. */
export interface SessionState {
  /** Its inputs and outputs, as text. */
  readonly values: string
  /** `null` for bytes. */
  readonly file: FileStamp | null
  /** See {@link OpenedSession.shared}; `null` for one that is not, or is of another device. */
  readonly shared: number | null
}

/** The file that a session is opened from, as it is now; `null` for bytes. */
export function fileOf(model: string | SharedArrayBuffer): FileStamp | null {
  return typeof model === 'string' ? stampOf(model) : null
}

/** Whether two sessions are of one model. */
export function isSame(one: SessionState, other: SessionState, by: keyof FileStamp): boolean {
  const isShared = by === 'content' || one.shared === null || other.shared === null || one.shared === other.shared
  return isShared && one.values === other.values && one.file?.[by] === other.file?.[by]
}
