import { opendir } from 'node:fs/promises'
import { join } from 'node:path'

const imageName = /\.(avif|gif|jpe?g|png|tiff?|webp)$/i

/**
 * The images of a folder and of all folders in it, one by one, as they are on the disk: a folder of millions is never in memory.
 *
 * @param {string} folder
 * @param {(path: string, error: Error) => void} unreadable told of folders that cannot be opened.
 * @returns {AsyncGenerator<string>} their paths in the folder, with slashes on every platform.
 */
export async function* imagesIn(folder, unreadable, within = '') {
  let entries
  try {
    entries = await opendir(join(folder, within))
  } catch (error) {
    if (within === '') throw error
    return unreadable(within, error)
  }
  for await (const entry of entries) {
    const path = within === '' ? entry.name : `${within}/${entry.name}`
    if (entry.isDirectory()) yield* imagesIn(folder, unreadable, path)
    else if (imageName.test(entry.name)) yield path
  }
}
