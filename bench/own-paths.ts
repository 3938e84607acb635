import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** With a slash at its end. */
const root = fileURLToPath(new URL('../', import.meta.url))

/** For JSON.stringify: files by their paths in the project, as whose machine it was is nobody's business, and a reason for differences. */
export function withoutOwnPaths(_: string, value: unknown): unknown {
  return typeof value === 'string' ? value.replaceAll(root, '').replaceAll(dirname(root), '..') : value
}
