import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A copy of this Node, for processes whose memory is summed up: of what they have of the same file, other Node processes of this machine
 * (the bench itself, npm) would be given a part, and the sum would grow with each of them by what those had.
 */
export async function withOwnNode<T>(use: (node: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  try {
    const node = join(folder, 'node')
    copyFileSync(process.execPath, node)
    return await use(node)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
