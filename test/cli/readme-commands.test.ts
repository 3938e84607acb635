import { execFile } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../triton-repository/temporary.ts'
import { root } from './run.ts'

const [reference, ...pages] = [
  'reference/command-line',
  'guide/perf',
  'guide/capacity-planning',
  'guide/execution-providers',
  'guide/simulation',
]
  .map((page) => `docs/${page}.md`)
  .map((file) => readFileSync(join(root, file), 'utf8'))
const linesOf = (text: string) => [...text.matchAll(/^npx zerohop (.+)$/gm)].map(([, line]) => line!)
const lines = linesOf(reference!)
const others = pages.flatMap(linesOf).filter((line) => !lines.includes(line))

describe('the page of the command line, and those of single commands', () => {
  it('shows every command', () => {
    expect([...new Set(lines.map((line) => line.split(' ', 1)[0]))].sort()).toEqual([
      'devices',
      'inspect',
      'perf',
      'providers',
      'simulate',
      'trace-export',
      'trace-summary',
      'tune',
      'types',
    ])
  })

  it.each([...lines, ...others])('is right that one can call zerohop %s', async (line) => {
    const cwd = temporaryFolder({})
    symlinkSync(join(root, 'examples'), join(cwd, 'examples'))
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      [join(root, 'dist/cli/main.js'), ...line.split(' ')],
      { cwd },
    )
    const [, out] = /--out (\S+)/.exec(line) ?? []
    expect(out === undefined ? stdout : readFileSync(join(cwd, out), 'utf8')).not.toBe('')
    expect(stderr).toBe('')
  })
})
