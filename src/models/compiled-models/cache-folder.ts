import { createHash, randomUUID } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  realpathSync,
  renameSync,
  statfsSync,
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
} from 'node:fs'
import { chmod, mkdtemp, open, rename, rm, unlink } from 'node:fs/promises'
import { dirname, join, isAbsolute } from 'node:path'
import { ownIdentity } from './entry-lock.ts'
import { homedir } from 'node:os'

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

/** The folder for caches of this user. @throws Error when the system tells of none. */
export function userCacheFolder(): string {
  const { XDG_CACHE_HOME, LOCALAPPDATA } = process.env
  const [told, ...usual] =
    process.platform === 'darwin' ? [undefined, 'Library', 'Caches']
    : process.platform === 'win32' ? [LOCALAPPDATA, 'AppData', 'Local']
    : [XDG_CACHE_HOME, '.cache'] // prettier-ignore
  if (told !== undefined && isAbsolute(told)) return told
  const folder = join(homeFolder(), ...usual)
  if (!isAbsolute(folder))
    throw new Error(
      'this user has no home folder; cache: { dir }, or ZEROHOP_CACHE, says where else it may be',
    )
  return folder
}

/** Empty where the system knows none, as of a container's user who is but a number. */
function homeFolder(): string {
  try {
    return homedir()
  } catch {
    return ''
  }
}

/** Bits of a mode by which others than its owner may write. */
const writableByOthers = 0o022n
const sticky = 0o1000

/** By the numbers that Linux has for them: NFS, SMB in its three versions, AFS. */
const networkFileSystems = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x5346414f])

/**
 * @param folder without links in it, as `realpath` gives it: another user could turn a link elsewhere after the check.
 * @throws Error that says why there can be no cache in a folder, although it can be written to.
 */
function checkPlace(folder: string): void {
  if (process.getuid !== undefined) checkOwners(folder, process.getuid())
  // A file that another machine removes is gone there for who has it mapped, which ends a process by SIGBUS.
  if (process.platform === 'linux' && networkFileSystems.has(statfsSync(folder).type))
    throw new Error(`${folder} lies on a network file system; a local one has to be given (cache.dir)`)
}

/** From the top down: what lies in a folder that only this user and root can change stays what it was found to be. */
function checkOwners(folder: string, user: number): void {
  if (folder !== dirname(folder)) checkOwners(dirname(folder), user)
  const stats = lstatSync(folder)
  const advice = 'choose a folder of your own by cache: { dir }, or ZEROHOP_CACHE'
  if (!stats.isDirectory()) throw new Error(`${folder} is no folder`)
  if (stats.uid !== user && stats.uid !== 0)
    throw new Error(
      `${folder} belongs to user ${stats.uid}, who could put another cache in its place: ${advice}`,
    )
  const isOpen = (stats.mode & Number(writableByOthers)) !== 0 && (stats.mode & sticky) === 0
  // Also of a group that has nobody else in it: who is in one only the system's data bases say, and others can be added later.
  if (isOpen)
    throw new Error(
      `other users may write to ${folder}, and put another cache in its place: take that right from them (chmod go-w), or ${advice}`,
    )
}

/** Whether something belongs to another user. */
function isForeign({ uid }: BigIntStats): boolean {
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
