import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Of the compiled files of a package and its addons: a checkout has many builds of one version. */
export function buildHash(folder: string): string {
  const hash = createHash('sha256')
  for (const part of ['dist', 'build', 'prebuilds', 'native/build'].map((name) => join(folder, name))) {
    try {
      const files = readdirSync(part, { recursive: true, encoding: 'utf8' }).filter((file) =>
        /\.(js|node)$/.test(file),
      )
      for (const file of files.sort()) hash.update(`${file}\0`).update(readFileSync(join(part, file)))
    } catch {
      // nothing was built there
    }
  }
  return hash.digest('hex').slice(0, 12)
}
