import { createHash, randomUUID } from 'node:crypto'
import { chmodSync, existsSync, lstatSync, mkdirSync, realpathSync, renameSync } from 'node:fs'
import { chmod, mkdtemp, open, rename, rm, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { checkPlace, userCacheFolder } from './cache-place.ts'
import { distrustOf, isForeign } from './ownership.ts'
import { ownIdentity } from './process-identity.ts'

/** Of what lies in the folder and how: another version is another folder. */
const layout = 'compiled-models-v1'

const rooms = ['entries', 'used', 'known', 'notes', 'locks', 'unfinished'] as const

/** The folder of the cache, and what lies where in it. */
export class CacheFolder {
  readonly root: string

  private constructor(root: string) {
    this.root = root
  }

  /**
   * Makes the folder where it is not there, or not any more. What others may have written to is not used but made anew. All at once: by
   * way of Node's pool it would take ten times as long, in each load out of the cache.
   *
   * @param dir `null` for the user's own.
   * @throws Error that says why there can be none.
   */
  static open(dir: string | null): CacheFolder {
    const place = dir ?? join(userCacheFolder(), 'zerohop')
    makeFolder(place)
    const parent = realpathSync(place)
    checkPlace(parent)
    const folder = new CacheFolder(join(parent, layout))
    makePrivate(folder.root)
    for (const room of rooms) makePrivate(join(folder.root, room))
    return folder
  }

  /** Whether no other user can have changed what lies in it, nor put another one in its place. */
  isSafe(): boolean {
    try {
      checkPlace(dirname(this.root))
      return [this.root, join(this.root, 'entries')].every(
        (folder) => distrustOf(lstatSync(folder, { bigint: true })) === null,
      )
    } catch {
      return false
    }
  }

  /** A compiled model, and what is known of it. */
  entry(key: string): string {
    return join(this.root, 'entries', key)
  }

  /** Its time of change is that of the last use of an entry. */
  used(key: string): string {
    return join(this.root, 'used', key)
  }

  lock(key: string): string {
    return join(this.root, 'locks', key)
  }

  /** What loads have found out of a model. */
  notes(key: string): string {
    return join(this.root, 'notes', `${key}.json`)
  }

  /** The content of a file that was hashed before. */
  known(path: string): string {
    return join(this.root, 'known', `${createHash('sha256').update(path).digest('hex')}.json`)
  }

  get unfinished(): string {
    return join(this.root, 'unfinished')
  }

  /** A folder for what is not finished; its name says whose it is. */
  temporary(): Promise<string> {
    return mkdtemp(join(this.unfinished, `${ownIdentity()}-`))
  }

  /** Puts a finished folder in its place at once, instead of what is there. */
  async publish(finished: string, key: string): Promise<void> {
    const place = this.entry(key)
    await sync(finished)
    await rename(finished, place).catch(async () => {
      await this.remove(key)
      await rename(finished, place)
    })
    await sync(join(this.root, 'entries'))
  }

  /** Takes an entry away, all of it at once. Who has its files open keeps them. */
  async remove(key: string): Promise<void> {
    const aside = join(this.unfinished, `${ownIdentity()}-${randomUUID()}`)
    // What is no folder of ours, whatever it is, is not looked into. One that must not be written to can neither be moved nor emptied.
    if (lstatSync(this.entry(key), { throwIfNoEntry: false })?.isDirectory() === true)
      await chmod(this.entry(key), 0o700).catch(() => {})
    await rename(this.entry(key), aside).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    await rm(aside, { recursive: true, force: true })
    await unlink(this.used(key)).catch(() => {})
  }
}

/** With those that it lies in. By `recursive: true` Node.js would try for ever where a file system says ENOENT, as those of the system and autofs do. */
function makeFolder(path: string): void {
  if (existsSync(path)) return // who may only read has no right to ask for it
  makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error // another process may be quicker
  }
}

/** A folder in which only this user may write, with nothing in it that another one can have put there. */
function makePrivate(path: string): void {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (found === undefined) makeFolder(path)
  const stats = found ?? lstatSync(path, { bigint: true })
  if (!stats.isDirectory()) throw new Error(`${path} is no folder`)
  // Another user's is left to that one: two that share a folder would else take turns in removing what the other has.
  if (isForeign(stats)) throw new Error(`${path} is not to be trusted: ${distrustOf(stats)}`)
  if (process.getuid !== undefined && (stats.mode & 0o777n) !== 0o700n) chmodSync(path, 0o700)
  if (distrustOf(stats) === null) return
  const aside = `${path}.${randomUUID()}`
  renameSync(path, aside)
  mkdirSync(path, { mode: 0o700 })
  void rm(aside, { recursive: true, force: true }).catch(() => {})
}

/** What a folder holds is on the disk; where the system does not do that for folders, it is not. */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder).catch(() => null)
  await handle?.sync().catch(() => {})
  await handle?.close()
}
