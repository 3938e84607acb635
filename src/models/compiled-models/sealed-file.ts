import { createHash, randomUUID } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { open, rename, unlink } from 'node:fs/promises'
import { distrustOf } from './ownership.ts'

const longest = 2 ** 20

/**
 * Reads what {@link writeSealed} has written: some hundred bytes, at once. By way of Node's pool it would take ten times as long, of
 * which a load out of the cache does several, one after the other.
 *
 * @returns `null` for a file that is not there, not whole, no regular file, or one that another user can have written.
 */
export function readSealed<T>(path: string): T | null {
  try {
    const file = openSync(
      path,
      constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0),
    )
    try {
      const stats = fstatSync(file, { bigint: true })
      if (!stats.isFile() || stats.size > longest || distrustOf(stats) !== null) return null
      const text = readFileSync(file, 'utf8')
      const end = text.indexOf('\n')
      const body = text.slice(end + 1)
      return end === -1 || text.slice(0, end) !== sealOf(body) ? null : (JSON.parse(body) as T)
    } finally {
      closeSync(file)
    }
  } catch {
    return null
  }
}

/** Writes a value aside, and puts it in its place when it is on the disk: whoever reads sees the old or the new one, whole. */
export async function writeSealed(path: string, value: unknown, mode = 0o600): Promise<void> {
  const body = JSON.stringify(value)
  const unfinished = `${path}.${randomUUID()}`
  try {
    const file = await open(unfinished, 'wx', mode)
    try {
      await file.writeFile(`${sealOf(body)}\n${body}`)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, path)
  } catch (error) {
    await unlink(unfinished).catch(() => {})
    throw error
  }
}

function sealOf(body: string): string {
  return createHash('sha256').update(body).digest('hex')
}
