import { lstatSync, statfsSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'

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

const writableByOthers = 0o022
const sticky = 0o1000

/** By the numbers that Linux has for them: NFS, SMB in its three versions, AFS. */
const networkFileSystems = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x5346414f])

/**
 * @param folder without links in it, as `realpath` gives it: another user could turn a link elsewhere after the check.
 * @throws Error that says why there can be no cache in a folder, although it can be written to.
 */
export function checkPlace(folder: string): void {
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
  const isOpen = (stats.mode & writableByOthers) !== 0 && (stats.mode & sticky) === 0
  // Also of a group that has nobody else in it: who is in one only the system's data bases say, and others can be added later.
  if (isOpen)
    throw new Error(
      `other users may write to ${folder}, and put another cache in its place: take that right from them (chmod go-w), or ${advice}`,
    )
}
