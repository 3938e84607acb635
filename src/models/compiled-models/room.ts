import { statfs } from 'node:fs/promises'
import type { CacheFolder } from './cache-folder.ts'
import { makeRoom } from './eviction.ts'

/** Weights may be there twice: as the model has them, and as a kernel wants them. */
const timesTheModel = 2
const besideBytes = 2 ** 20

/** Why there is no room on the disk for the compiled form of a model of so many bytes; `null` when there is, or other models made room. */
export async function lackOfRoom(cache: CacheFolder, byteLength: number): Promise<string | null> {
  const needed = timesTheModel * byteLength + besideBytes
  let free = await freeBytes(cache)
  if (free < needed) {
    await makeRoom(cache, needed - free).catch(() => {})
    free = await freeBytes(cache)
  }
  return free >= needed
    ? null
    : `the disk of ${cache.root} has ${free} bytes free, and up to ${needed} may be needed`
}

/** Infinite where it is not told. */
async function freeBytes({ root }: CacheFolder): Promise<number> {
  const disk = await statfs(root).catch(() => null)
  return disk === null ? Infinity : disk.bavail * disk.bsize
}
