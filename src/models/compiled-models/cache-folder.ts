import { createHash, randomUUID } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
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

/** Version of the folder's layout; another version uses another folder. */
const layout = 'compiled-models-v1'

const rooms = ['entries', 'used', 'known', 'notes', 'locks', 'unfinished'] as const

/** The folder of the cache, and the paths in it. */
export class CacheFolder {
  readonly root: string
  /** Why nothing is written to it; `null` where it can be written to. */
  readonly readOnly: string | null

  private constructor(root: string) {
    this.root = root
    this.readOnly = whyReadOnly(root)
  }

  /**
   * Creates the folder if it is missing. A folder that others may have written to is not used but replaced. One of root,
   * and one that may only be read, is used as it is.
   * Synchronous: on Node.js's thread pool it would take ten times as long, in each load from the cache.
   *
   * @param dir `null` for the user's default.
   * @throws Error that says why there can be no cache.
   */
  static open(dir: string | null): CacheFolder {
    const place = dir ?? join(userCacheFolder(), 'zerohop')
    makeFolder(place)
    const parent = realpathSync(place)
    checkPlace(parent)
    const folder = new CacheFolder(join(parent, layout))
    if (folder.readOnly !== null) return folder
    makePrivate(folder.root)
    for (const room of rooms) makePrivate(join(folder.root, room))
    return folder
  }

  /** Whether no other user can have changed its content, or replaced it. */
  isSafe(): boolean {
    try {
      checkPlace(dirname(this.root))
      return [this.root, join(this.root, 'entries')].every(
        (folder) => trustedStats(folder, 'folder') !== null,
      )
    } catch {
      return false
    }
  }

  /** The folder of a compiled model and its manifest. */
  entry(key: string): string {
    return join(this.root, 'entries', key)
  }

  /** A file whose modification time is the last use of an entry. */
  used(key: string): string {
    return join(this.root, 'used', key)
  }

  lock(key: string): string {
    return join(this.root, 'locks', key)
  }

  /** Notes about a model from earlier loads. */
  notes(key: string): string {
    return join(this.root, 'notes', `${key}.json`)
  }

  /** The hash of a file that was hashed before. */
  known(path: string): string {
    return join(this.root, 'known', `${hashOfText(path)}.json`)
  }

  get unfinished(): string {
    return join(this.root, 'unfinished')
  }

  /** A folder for unfinished work; its name identifies the owner. */
  temporary(): Promise<string> {
    return mkdtemp(join(this.unfinished, `${ownIdentity()}-`))
  }

  /** As {@link temporary}; `null` if it cannot be made, or the disk has no room for the compiled form of a model of this size. */
  temporaryNow(byteLength: number): string | null {
    try {
      const { bavail, bsize } = statfsSync(this.root)
      return bavail * bsize < neededBytes(byteLength)
        ? null
        : mkdtempSync(join(this.unfinished, `${ownIdentity()}-`))
    } catch {
      return null
    }
  }

  /** Moves a finished folder into place atomically, and replaces the entry there. */
  async publish(finished: string, key: string): Promise<void> {
    const place = this.entry(key)
    await rename(finished, place).catch(async () => {
      await this.remove(key)
      await rename(finished, place)
    })
  }

  /** Flushes to disk that an entry is there, and its list of files. */
  async flush(key: string): Promise<void> {
    await sync(this.entry(key))
    await sync(join(this.root, 'entries'))
  }

  /** Removes an entry atomically. A process that has its files open keeps them. */
  async remove(key: string): Promise<void> {
    if (this.readOnly !== null) return
    const aside = join(this.unfinished, `${ownIdentity()}-${randomUUID()}`)
    // Anything that is not a folder of ours is removed without looking inside. A folder without write permission can
    // neither be moved nor emptied.
    if (lstatSync(this.entry(key), { throwIfNoEntry: false })?.isDirectory() === true)
      await chmod(this.entry(key), 0o700).catch(() => {})
    await rename(this.entry(key), aside).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    await rm(aside, { recursive: true, force: true })
    await unlink(this.used(key)).catch(() => {})
  }
}

/** Weights may be stored twice: as in the model, and in the layout of a kernel. */
const timesTheModel = 2
const besideBytes = 2 ** 20

/** Most bytes of the compiled form of a model. */
export function neededBytes(byteLength: number): number {
  return timesTheModel * byteLength + besideBytes
}

/**
 * Creates a folder and its parents. With `recursive: true` Node.js would retry for ever where a file system reports
 * ENOENT, as system ones and autofs do.
 */
function makeFolder(path: string): void {
  if (existsSync(path)) return // a user with read-only access may not create it
  makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error // another process may create it first
  }
}

/**
 * Why a folder that is there is only read: it belongs to root, its mode says so, or its file system does.
 *
 * @throws Error for a folder that cannot even be read.
 */
function whyReadOnly(folder: string): string | null {
  const stats = trustedStats(folder, 'folder')
  if (stats === null) return null
  const mode = (stats.mode & 0o777n).toString(8)
  const why =
    isForeign(stats) ? 'it belongs to root'
    : process.getuid !== undefined && (stats.mode & 0o200n) === 0n ? `its mode is ${mode}`
    : refusalOf(folder, constants.W_OK) // prettier-ignore
  if (why !== null && refusalOf(folder, constants.R_OK | constants.X_OK) !== null)
    throw new Error(`${folder} may not be read: ${why}, and its mode is ${mode}; run chmod -R a+rX ${folder}`)
  return why
}

/** Why the system refuses access; `null` if it does not. */
function refusalOf(path: string, mode: number): string | null {
  try {
    accessSync(path, mode)
    return null
  } catch (error) {
    return (error as Error).message
  }
}

/**
 * Creates or checks a folder in which only this user may write, with nothing in it that another user can have put
 * there.
 */
function makePrivate(path: string): void {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (found === undefined) makeFolder(path)
  const stats = found ?? lstatSync(path, { bigint: true })
  if (!stats.isDirectory()) throw new Error(`${path} is not a folder`)
  // Another user's folder stays: two users that share a folder would otherwise keep removing each other's.
  if (isForeign(stats)) throw new Error(`${path} is not trusted: it belongs to user ${stats.uid}`)
  if (process.getuid !== undefined && (stats.mode & 0o777n) !== 0o700n) chmodSync(path, 0o700)
  if (distrustOf(stats) === null) return
  const aside = `${path}.${randomUUID()}`
  renameSync(path, aside)
  mkdirSync(path, { mode: 0o700 })
  void rm(aside, { recursive: true, force: true }).catch(() => {})
}

/** Flushes the content of a folder to disk, if the system supports that for folders. */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder).catch(() => null)
  await handle?.sync().catch(() => {})
  await handle?.close()
}

/** This user's folder for caches. @throws Error when the system has none. */
export function userCacheFolder(): string {
  const { XDG_CACHE_HOME, LOCALAPPDATA } = process.env
  const [told, ...usual] =
    process.platform === 'darwin' ? [undefined, 'Library', 'Caches']
    : process.platform === 'win32' ? [LOCALAPPDATA, 'AppData', 'Local']
    : [XDG_CACHE_HOME, '.cache'] // prettier-ignore
  if (told !== undefined && isAbsolute(told)) return told
  const folder = join(homeFolder(), ...usual)
  if (!isAbsolute(folder))
    throw new Error('this user has no home folder: choose another by cache: { dir } or ZEROHOP_CACHE')
  return folder
}

/** Empty if unknown, as for a container's user that is only a number. */
function homeFolder(): string {
  try {
    return homedir()
  } catch {
    return ''
  }
}

/** Mode bits that let users other than the owner write. */
const writableByOthers = 0o022n
const sticky = 0o1000

/** By Linux's numbers: NFS, SMB in its three versions, AFS. */
const networkFileSystems = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x5346414f])

/**
 * @param folder a `realpath`, without links: another user could redirect a link after the check.
 * @throws Error that says why a writable folder cannot hold the cache.
 */
function checkPlace(folder: string): void {
  if (process.getuid !== undefined) checkOwners(folder, process.getuid())
  // If another machine removes a file from a network file system, processes that have it mapped here die by SIGBUS.
  if (process.platform === 'linux' && networkFileSystems.has(statfsSync(folder).type))
    throw new Error(`${folder} lies on a network file system; give a local one (cache.dir)`)
}

/** Checks from the root down: if only this user and root can change a folder, its content stays as it was checked. */
function checkOwners(folder: string, user: number): void {
  if (folder !== dirname(folder)) checkOwners(dirname(folder), user)
  const stats = lstatSync(folder)
  const advice = 'choose your own folder by cache: { dir } or ZEROHOP_CACHE'
  if (!stats.isDirectory()) throw new Error(`${folder} is not a folder`)
  if (stats.uid !== user && stats.uid !== 0)
    throw new Error(`${folder} belongs to user ${stats.uid}, who could replace the cache: ${advice}`)
  const isOpen = (stats.mode & Number(writableByOthers)) !== 0 && (stats.mode & sticky) === 0
  // Applies to a group without other members, too: only the system's databases list the members, and some may be added
  // later.
  if (isOpen)
    throw new Error(
      `other users may write to ${folder} and could replace the cache: remove that permission (chmod go-w), or ${advice}`,
    )
}

/** Whether something belongs to another user. */
function isForeign({ uid }: BigIntStats): boolean {
  return process.getuid !== undefined && uid !== BigInt(process.getuid())
}

/** Why something in the cache is not to be trusted; `null` if only this user or root can have put it there. */
function distrustOf(stats: BigIntStats): string | null {
  if (process.getuid === undefined) return null // Windows: the access control list of the folder decides
  if (isForeign(stats) && stats.uid !== 0n) return `it belongs to user ${stats.uid}`
  return (stats.mode & writableByOthers) === 0n ? null : 'others may write to it'
}

/** The stats of a file or folder, if there is access and only this user or root can have put it there; else `null`. */
export function trustedStats(path: string, kind: 'file' | 'folder'): BigIntStats | null {
  try {
    const stats = lstatSync(path, { bigint: true })
    const isOfKind = kind === 'file' ? stats.isFile() : stats.isDirectory()
    return isOfKind && distrustOf(stats) === null ? stats : null
  } catch {
    return null
  }
}

/** The state of a file. It changes when the file is written or replaced. */
export function stateOf({ size, mtimeNs, ctimeNs, ino }: BigIntStats): string {
  return `${size} ${mtimeNs} ${ctimeNs} ${ino}`
}

const longest = 2 ** 20

/**
 * Reads a file that {@link writeSealed} wrote: a few hundred bytes, synchronously. On Node.js's thread pool it would
 * take ten times as long, and a load from the cache does several reads in a row.
 *
 * @returns `null` for a file that is missing, incomplete, not a regular file, or writable by another user.
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
      return end === -1 || text.slice(0, end) !== hashOfText(body) ? null : (JSON.parse(body) as T)
    } finally {
      closeSync(file)
    }
  } catch {
    return null
  }
}

/**
 * Writes a value to a temporary file, and moves it into place once it is on disk: a reader sees either the old or the
 * new value, complete.
 */
export async function writeSealed(
  path: string,
  value: unknown,
  mode = 0o600,
  isFlushed = true,
): Promise<void> {
  const body = JSON.stringify(value)
  const unfinished = `${path}.${randomUUID()}`
  try {
    const file = await open(unfinished, 'wx', mode)
    try {
      await file.writeFile(`${hashOfText(body)}\n${body}`)
      if (isFlushed) await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, path)
  } catch (error) {
    await unlink(unfinished).catch(() => {})
    throw error
  }
}

/** SHA-256 of a text, in hexadecimal digits. */
export function hashOfText(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
