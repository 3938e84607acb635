import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, expect, it } from 'vitest'
import { limitMs } from './child.ts'
import { models } from './models.ts'

const name = `zerohop-test-${process.pid}`
const outer = ['/sys/fs/cgroup/cpu', '/sys/fs/cgroup'].map((mount) => join(mount, name)).find(limited)
const inner = join(outer ?? '', 'inner')

/** Makes a group with the time of one core, and one in it without a limit of its own; tells whether that can be done here. */
function limited(group: string): boolean {
  try {
    mkdirSync(join(group, 'inner'), { recursive: true })
    if (!existsSync(join(group, 'cgroup.procs'))) throw new Error(`${group} is a folder like any other`)
    if (existsSync(join(group, 'cpu.max'))) writeFileSync(join(group, 'cpu.max'), '100000 100000')
    else writeFileSync(join(group, 'cpu.cfs_quota_us'), '100000')
    return true
  } catch {
    remove(group)
    return false
  }
}

function remove(group: string): void {
  for (const folder of [join(group, 'inner'), group]) if (existsSync(folder)) rmdirSync(folder)
}

afterAll(() => {
  if (outer !== undefined) remove(outer)
})

it.skipIf(outer === undefined)(
  `in a control group with the time of one core there is one worker, and one image at a time${outer === undefined ? ' (no control group can be made here)' : ''}`,
  { timeout: limitMs },
  async () => {
    const command = [
      '-c',
      'echo $$ > "$0/cgroup.procs" && exec "$@"',
      inner,
      process.execPath,
      fileURLToPath(new URL('fixtures/cores.mjs', import.meta.url)),
      'in a group',
    ]
    const { stdout } = await promisify(execFile)('/bin/sh', command, {
      env: { ...process.env, ZEROHOP_TEST_MODELS: JSON.stringify(models()) },
    })
    expect(JSON.parse(stdout)).toEqual({ cores: 1, maxWorkers: 1, workers: 1, images: 1 })
  },
)
