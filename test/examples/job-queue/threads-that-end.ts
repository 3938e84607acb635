import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'

/** What a process preloads (`--import`) so that its worker threads end when it is told to, and no other one starts from then on. */
export function threadsThatEnd(): { readonly preload: string; end(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-threads-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const [preload, flag] = [join(folder, 'preload.mjs'), join(folder, 'end')]
  writeFileSync(
    preload,
    `import { existsSync } from 'node:fs'
    import { isMainThread } from 'node:worker_threads'
    const endWhenTold = () => existsSync(${JSON.stringify(flag)}) && process.exit(7)
    if (!isMainThread) {
      endWhenTold()
      setInterval(endWhenTold, 10)
    }`,
  )
  return { preload: pathToFileURL(preload).href, end: () => writeFileSync(flag, '') }
}
