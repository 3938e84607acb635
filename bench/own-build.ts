import { createRequire } from 'node:module'
import { packageFolder } from '../src/base/own-package.ts'
import { buildHash } from '../packages/perf/src/tune/state-file.ts'

/** Which zerohop is measured: its version, and the hash of what is built here. */
export interface OwnBuild {
  readonly version: string
  readonly hash: string
}

export function ownBuild(): OwnBuild {
  const { version } = createRequire(import.meta.url)('../package.json') as { version: string }
  return { version, hash: buildHash(packageFolder) }
}
