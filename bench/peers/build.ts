import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Of what is loaded as this package, so that figures of another build are known. */
export function buildHash(): string {
  const hash = createHash('sha256')
  for (const folder of ['dist', 'build', 'prebuilds']) {
    for (const file of filesIn(join(root, folder)).filter((name) => /\.(c?js|node)$/.test(name))) hash.update(file).update(readFileSync(join(root, folder, file)))
  }
  return hash.digest('hex').slice(0, 12)
}

function filesIn(folder: string): string[] {
  try {
    return (readdirSync(folder, { recursive: true }) as string[]).sort()
  } catch {
    return [] // nothing was built there
  }
}
