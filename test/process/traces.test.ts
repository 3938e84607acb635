import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readTraceFile } from '../../packages/perf/src/trace-files/read-trace-file.ts'
import { full } from '../support/full.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { limitMs, runFixture } from './child.ts'

describe('a process that traces', () => {
  const endings: [scenario: string, code: number, stderr: RegExp][] = [
    ['process.exit', 3, /^$/],
    ['nothing', 0, /^$/],
  ]
  if (full) endings.push(['uncaught exception', 1, /uncaught on purpose/], ['close', 0, /^$/])
  it.each(endings)(
    'ends without delay by %s, and all traces are in the file',
    { timeout: limitMs },
    async (scenario, code, stderr) => {
      const file = join(temporaryFolder({}), 'trace.json')
      const ending = await runFixture('traces.mjs', scenario, [], { ZEROHOP_TEST_TRACE: file })
      expect(ending).toMatchObject({ code, hung: false, stderr: expect.stringMatching(stderr) as string })
      const { traces, cut } = await readTraceFile(file)
      expect([traces.length, cut]).toEqual([50, false])
    },
  )

  it('and is killed leaves what it has flushed', { timeout: limitMs }, async () => {
    const file = join(temporaryFolder({}), 'trace.json')
    expect(await runFixture('traces.mjs', 'killed', [], { ZEROHOP_TEST_TRACE: file })).toMatchObject({
      signal: 'SIGKILL',
      hung: false,
    })
    const { traces } = await readTraceFile(file)
    expect(traces.length).toBeGreaterThanOrEqual(50)
  })

  it('to a file that cannot be written ends as ever', { timeout: limitMs }, async () => {
    const ending = await runFixture('traces.mjs', 'process.exit', ['--no-warnings'], {
      ZEROHOP_TEST_TRACE: join(temporaryFolder({}), 'none', 'trace.json'),
    })
    expect(ending).toMatchObject({ code: 3, hung: false, stderr: '' })
  })

  const beside: [scenario: string, code: number][] = [['process.exit', 3]]
  if (full) beside.push(['nothing', 0])
  it.skipIf(process.platform === 'win32').each(beside)(
    'to a pipe without a reader ends by %s',
    { timeout: limitMs },
    async (scenario, code) => {
      const pipe = join(temporaryFolder({}), 'pipe')
      execFileSync('mkfifo', [pipe])
      const ending = await runFixture('traces.mjs', scenario, ['--no-warnings'], { ZEROHOP_TEST_TRACE: pipe })
      expect(ending).toMatchObject({ code, hung: false, stderr: '' })
    },
  )
})
