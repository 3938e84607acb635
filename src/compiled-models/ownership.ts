import type { BigIntStats } from 'node:fs'

/** Bits of a mode by which others than its owner may write. */
const writableByOthers = 0o022n

/** Why something in the cache is not to be trusted, whatever it says; `null` when only this user can have put it there. */
export function distrustOf({ uid, mode }: BigIntStats): string | null {
  const own = process.getuid?.()
  if (own === undefined) return null // Windows: the folder's own list of rights decides
  if (uid !== BigInt(own)) return `it belongs to user ${uid}`
  return (mode & writableByOthers) === 0n ? null : 'others may write to it'
}

/** The state of a file that was written or replaced since it was looked at is another one. */
export function stateOf({ size, mtimeNs, ctimeNs, ino }: BigIntStats): string {
  return `${size} ${mtimeNs} ${ctimeNs} ${ino}`
}
