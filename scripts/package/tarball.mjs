// The package as a stranger gets it: packed, with a binary for this platform in it.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { prebuildName, prebuildPath, root } from '../native/toolchain.mjs'
import { npmPack } from './npm-pack.mjs'

const built = join(root, 'build/cmake/Release/zerohop.node')

/**
 * Packs into a folder; returns the tarball's path. Where no prebuild was made, what `npm run build:native` built last takes its
 * place. Its name has a hash of what it holds, as installers keep what they have once unpacked under one name.
 */
export function pack(folder) {
  let tarball = packed(root, folder)
  if (!existsSync(prebuildPath)) {
    if (!existsSync(built))
      throw new Error('there is no binary to pack: run npm run prebuild, or npm run build:native')
    execFileSync('tar', ['-xzf', tarball, '-C', folder])
    const place = join(folder, 'package/prebuilds', prebuildName())
    mkdirSync(place, { recursive: true })
    cpSync(built, join(place, 'zerohop.node'))
    tarball = packed(join(folder, 'package'), folder)
  }
  return nameByContent(tarball, folder, 'zerohop')
}

/** Packs the package of tools, in the same way. */
export function packTools(folder) {
  return nameByContent(packed(join(root, 'packages/perf'), folder), folder, 'zerohop-perf')
}

function nameByContent(tarball, folder, name) {
  const hash = createHash('sha256').update(readFileSync(tarball)).digest('hex').slice(0, 12)
  const named = join(folder, `${name}-${hash}.tgz`)
  renameSync(tarball, named)
  return named
}

function packed(from, to) {
  return join(to, npmPack(from, '--pack-destination', to).filename)
}
