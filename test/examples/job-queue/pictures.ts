import { mkdtempSync, readdirSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A folder of so many pictures, those of another one in turn: each is a job of its own. */
export function manyPictures(source: string, count: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-pictures-'))
  const names = readdirSync(source).sort()
  for (let index = 0; index < count; index++) {
    const name = names[index % names.length]!
    symlinkSync(join(source, name), join(folder, `${String(index).padStart(5, '0')}-${name}`))
  }
  return folder
}
