import type { BigIntStats } from 'node:fs'

/** Bits of a mode by which others than its owner may write. */
const writableByOthers = 0o022n

/** Whether something belongs to another user. */
export function isForeign({ uid }: BigIntStats): boolean {
  return process.getuid !== undefined && uid !== BigInt(process.getuid())
}

/** Why something in the cache is not to be trusted, whatever it says; `null` when only this user can have put it there. */
export function distrustOf(stats: BigIntStats): string | null {
  if (process.getuid === undefined) return null // Windows: the folder's own list of rights decides
  if (isForeign(stats)) return `it belongs to user ${stats.uid}`
  return (stats.mode & writableByOthers) === 0n ? null : 'others may write to it'
}

/** The state of a file that was written or replaced since it was looked at is another one. */
export function stateOf({ size, mtimeNs, ctimeNs, ino }: BigIntStats): string {
  return `${size} ${mtimeNs} ${ctimeNs} ${ino}`
}
