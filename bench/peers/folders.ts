import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** What peers are set up with and run in; git ignores it. */
export const cache = join(root, '.cache/peers')

/** A folder of the cache, made if need be. */
export function cacheFolder(...path: string[]): string {
  const folder = join(cache, ...path)
  mkdirSync(folder, { recursive: true })
  return folder
}

/** A source of a peer's server or program. */
export const source = (path: string): string => join(root, 'bench/peers/servers', path)

/** The models and photographs that lie beside the checkout. */
export const shared = (path: string): string => join(root, '../shared', path)
