// Full: it starts and ends programs of benchmarks.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import type { LevelFigures } from '../../bench/peers/level-run.ts'
import { measure } from '../../bench/peers/measure.ts'
import { statOf } from '../../bench/peers/processes.ts'
import { endLeftovers } from '../../bench/peers/process-tree.ts'
import { checkWritable, readState, writeWhole } from '../../bench/peers/state.ts'
import { planOf } from '../../bench/peers/plan.ts'
import type { Workload } from '../../bench/peers/workload.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
afterAll(() => rmSync(folder, { recursive: true }))

const root = fileURLToPath(new URL('../../', import.meta.url))
const isRunning = (pid: number): boolean => statOf(pid).started !== ''

/** A process that measures a program which never ends, and one that this has started and let go. */
async function measuring(): Promise<{ child: ChildProcess; pids: number[]; passing: string }> {
  const detached = `const { pid } = require('node:child_process').spawn('sleep', ['600'], { detached: true, stdio: 'ignore' }); console.log([process.pid, pid].join()); setInterval(() => {}, 1e6)`
  const program = `
    import { endInOrder, inPassingFolder } from './bench/peers/ending.ts'
    import { ProcessTree } from './bench/peers/process-tree.ts'
    endInOrder()
    await inPassingFolder((folder) => new Promise(() => {
      new ProcessTree({ file: process.execPath, args: ['-e', ${JSON.stringify(detached)}] }, (line) => console.log(line + ' ' + folder))
    }))`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface(child.stdout!), 'line')) as [string]
  const [pids, passing] = line.split(' ') as [string, string]
  return { child, pids: pids.split(',').map(Number), passing }
}

describe.skipIf(process.platform !== 'linux')('a measuring process', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    'ends what it started when it is told to by %s, and removes its folder',
    async (signal) => {
      const { child, pids, passing } = await measuring()
      expect(pids.map(isRunning)).toEqual([true, true])
      expect(existsSync(passing)).toBe(true)
      child.kill(signal)
      const [code] = (await once(child, 'exit')) as [number]
      expect(code).toBe(signal === 'SIGINT' ? 130 : 143)
      expect(pids.map(isRunning)).toEqual([false, false])
      expect(existsSync(passing)).toBe(false)
    },
  )

  it('that was killed leaves processes which the next one ends, and those of one that runs it leaves alone', async () => {
    const [killed, other] = [await measuring(), await measuring()]
    killed.child.kill('SIGKILL')
    await once(killed.child, 'exit')
    expect(killed.pids.map(isRunning)).toEqual([true, true])
    const { ended, others } = endLeftovers()
    expect(ended).toBeGreaterThanOrEqual(2)
    expect(others).toContain(other.child.pid)
    await expect.poll(() => killed.pids.map(isRunning)).toEqual([false, false])
    expect(other.pids.map(isRunning)).toEqual([true, true])
    other.child.kill('SIGTERM')
    await once(other.child, 'exit')
    rmSync(killed.passing, { recursive: true })
  })

  it('goes on from its results, but not from those of another build, and names no path of this machine', () => {
    const file = join(folder, 'of/peers.json')
    const run = (only = 'zerohop'): string => {
      const args = [
        '--import',
        'tsx',
        'bench/peers/main.ts',
        '--smoke',
        '--only',
        only,
        '--models',
        'mlp',
        '--json',
        file,
      ]
      const { stdout, stderr, status } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
      expect(stderr).toBe('')
      expect(status).toBe(0)
      return stdout
    }
    run()
    const text = readFileSync(file, 'utf8')
    const result = JSON.parse(text) as {
      date: string
      met: boolean
      details: { units: { error: string | null; date: string; of: string }[] }
    }
    const [unit] = result.details.units
    expect(unit).toMatchObject({ error: null, date: result.date })
    expect(result.met).toBe(false) // nothing was compared
    expect(text).not.toContain(dirname(root))
    expect(run()).toContain('0 of 1 measurements left')
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ date: unit!.date })
    const peersWith = (only: string): string[] => {
      said = run(only)
      return (JSON.parse(readFileSync(file, 'utf8')) as { rows: { peer: string; '8 /s': unknown }[] }).rows
        .filter((row) => row['8 /s'] !== '-')
        .map(({ peer }) => peer)
    }
    let said = ''
    expect(peersWith('onnxruntime-node')).toEqual(['zerohop', 'onnxruntime-node'])
    expect(said).not.toContain('dropped')
    writeFileSync(file, text.replace(unit!.of, 'another'))
    expect(peersWith('onnxruntime-node')).toEqual(['onnxruntime-node'])
    expect(said).toContain('dropped: zerohop with mlp')
    writeFileSync(file, text.replace(unit!.of, 'another'))
    expect(run()).toContain('1 measurements are of another build')
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
      details: { units: [{ of: unit!.of, error: null }] },
    })
  })
})

describe.skipIf(process.platform !== 'linux')('a program that makes its load itself', () => {
  it('is understood when it says all of several levels at once', async () => {
    const lines = [10, 20].flatMap((answered) => [
      { event: 'begin' },
      { event: 'measured' },
      { event: 'end', answered, seconds: 1, failed: 0, unfinished: 0, samples: [] },
    ])
    const said = JSON.stringify(`${lines.map((line) => JSON.stringify(line)).join('\n')}\n`)
    const program = () => ({ file: process.execPath, args: ['-e', `process.stdout.write(${said})`] })
    const peer = {
      kind: 'in process',
      name: 'at once',
      describe: '',
      setUp: async () => ({}),
      settings: () => ({}),
      program,
    } as const
    const workload = { name: 'mlp', files: [], references: [], tolerance: 0 } as unknown as Workload
    const found: LevelFigures[] = []
    await measure(
      peer,
      workload,
      0,
      [1, 8].map((callers) => ({ callers, warmupSeconds: 0, warmupRequests: 0, seconds: 1 })),
      found,
    )
    expect(found.map(({ callers, requestsPerSecond }) => [callers, requestsPerSecond])).toEqual([
      [1, 10],
      [8, 20],
    ])
  })
})

describe('the file of results', () => {
  const plan = planOf({ quick: true, smoke: false })

  it('is refused when it holds none', () => {
    const file = join(folder, 'broken.json')
    writeFileSync(file, '{"details":')
    expect(() => readState(file, plan)).toThrow(`${file} holds no results`)
  })

  it('is known to be writable before anything is measured', () => {
    const file = join(folder, 'deep/er/result.json')
    checkWritable(file)
    writeWhole(file, 'whole')
    expect(readFileSync(file, 'utf8')).toBe('whole')
    expect(() => checkWritable(dirname(file))).toThrow('is a folder')
    expect(() => checkWritable(join(file, 'below.json'))).toThrow()
  })
})
