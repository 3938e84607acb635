// Makes this platform's prebuild: node scripts/native/prebuild.mjs
import { copyFileSync, mkdirSync, renameSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { buildWithCMake } from './build.mjs'
import { fail, prebuildPath, root } from './toolchain.mjs'

try {
  const built = join(root, buildWithCMake('Release'))
  mkdirSync(dirname(prebuildPath), { recursive: true })
  // Renamed into place: a process that has the old one loaded would not survive its bytes changing.
  copyFileSync(built, `${prebuildPath}.new`)
  renameSync(`${prebuildPath}.new`, prebuildPath)
  console.log(`zerohop: made ${relative(root, prebuildPath)}`)
} catch (error) {
  fail(error)
}
