import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { once, step } from './environments.ts'
import { PeerMissing } from './peer.ts'

/** Unpacks a package of the system's distribution, and what it needs that is not installed, into a folder; installs nothing. */
export async function debianPackages(name: string, folder: string): Promise<void> {
  if (process.arch !== 'x64') throw new PeerMissing(`${name} is only looked for on x64`)
  await once(folder, name, async () => {
    // Lines of 'address' archive size checksum; what is installed is not among them.
    const lines = (
      await step('apt-get', ['install', '--print-uris', '--quiet=2', '--no-install-recommends', name])
    ).split('\n')
    const names = lines.flatMap((line) => /^'\S+' ([^_\s]+)_/.exec(line)?.[1] ?? [])
    const archives = mkdtempSync(join(folder, 'archives-'))
    try {
      await step('apt-get', ['download', '--quiet=2', ...names], archives)
      for (const archive of readdirSync(archives)) await step('dpkg', ['-x', join(archives, archive), folder])
    } finally {
      rmSync(archives, { recursive: true, force: true })
    }
  })
}
