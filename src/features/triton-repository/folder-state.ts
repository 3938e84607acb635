import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isVersion } from './version-policy.ts'

/** Folders within folders that are looked into. */
const deepest = 8

/** The files of a model's folder at one time, as far as their system tells of changes. */
export class FolderState {
  /** Size, time of change and place on the disk of each file, by its path in the folder. */
  readonly #files: ReadonlyMap<string, string>
  /** When the last of them was changed or moved here, in milliseconds since the epoch. */
  readonly changedAtMs: number

  constructor(files: ReadonlyMap<string, string>, changedAtMs: number) {
    this.#files = files
    this.changedAtMs = changedAtMs
  }

  /** Changes when a file is written, replaced, added or removed. */
  get stamp(): string {
    return this.#stampOf(() => true)
  }

  /** The same, of what one version is loaded from: the files of other versions do not count. */
  stampOfVersion(version: number): string {
    return this.#stampOf((folder) => !isVersion(folder) || folder === String(version))
  }

  #stampOf(counts: (folder: string) => boolean): string {
    const lines = [...this.#files].flatMap(([path, state]) =>
      counts(path.split('/', 1)[0]!) ? [`${path} ${state}`] : [],
    )
    return lines.sort().join('\n')
  }
}

/**
 * Looks at all files below a folder, through links, but once into whatever folder they lead to from one in it: a link may lead
 * back up. `null` when there is no such folder.
 */
export async function folderState(folder: string): Promise<FolderState | null> {
  const files = new Map<string, string>()
  let changedAtMs = 0
  const look = async (below: string, depth: number, seen: Set<string>): Promise<void> => {
    for (const name of await readdir(join(folder, below))) {
      const path = below === '' ? name : `${below}/${name}`
      const found = await stat(join(folder, path), { bigint: true }).catch(() => null)
      if (found === null) continue // gone since, or a link to nothing
      const place = `${found.dev} ${found.ino}`
      if (!found.isDirectory()) files.set(path, `${found.size} ${found.mtimeNs} ${found.ctimeNs} ${place}`)
      else {
        files.set(path, 'folder')
        // Each version may be a link to the same folder, and is looked into.
        const seenHere = depth === 1 ? new Set(seen) : seen
        if (depth < deepest && !seenHere.has(place))
          await look(path, depth + 1, seenHere.add(place)).catch(ifThere)
      }
      changedAtMs = Math.max(changedAtMs, Number(found.ctimeMs))
    }
  }
  try {
    const { dev, ino } = await stat(folder, { bigint: true })
    await look('', 1, new Set([`${dev} ${ino}`]))
  } catch (error) {
    if (isGone(error)) return null
    throw error
  }
  return new FolderState(files, changedAtMs)
}

function ifThere(error: unknown): void {
  if (!isGone(error)) throw error
}

function isGone(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'ENOENT' || code === 'ENOTDIR'
}
