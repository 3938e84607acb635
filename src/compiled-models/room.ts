import { statfs } from 'node:fs/promises'
import type { CacheFolder } from './cache-folder.ts'

/** Weights may be there twice: as the model has them, and as a kernel wants them. */
const timesTheModel = 2
const besideBytes = 2 ** 20

/** Why there is no room on the disk for the compiled form of a model of so many bytes; `null` when there is. */
export async function lackOfRoom({ root }: CacheFolder, byteLength: number): Promise<string | null> {
  const disk = await statfs(root).catch(() => null)
  if (disk === null) return null // not told
  const free = disk.bavail * disk.bsize
  const needed = timesTheModel * byteLength + besideBytes
  return free >= needed ? null : `the disk of ${root} has ${free} bytes free, and up to ${needed} may be needed`
}
