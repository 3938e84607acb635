import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { InferenceEngine, type ModelConfig } from '../../../../src/index.ts'
import type { TuneResult } from '../../src/tune/outcome.ts'
import { identity } from '../../../../test/models/small.ts'
import { root, zerohop, zerohopAlone, type Ended } from '../../../../test/cli/run.ts'
import { full, repetitions } from '../../../../test/support/full.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-tune-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const model = identity('float32')
const output = (name: string) => join(folder, `${name}.json`)
const statePath = (name: string) => join(folder, `${name}.tune-state.json`)
/** A grid of few points: these tests are about what goes on around it. */
const few = [
  '--instances',
  '1',
  '--intra-op-threads',
  '1',
  '--max-batch-sizes',
  '1,8',
  '--max-queue-delays-us',
  '0',
]

/** Where the budget was over before enough was measured, as on a busy machine, takes the budget that the command asks for. */
async function untilMeasured(
  budget: number,
  ...line: readonly string[]
): Promise<Ended & { readonly budget: number }> {
  const ended = await zerohopAlone('tune', model, ...few, '--budget', String(budget), ...line)
  const asked = /the time was too short to .+ give a --budget of (\d+) seconds or more$/m.exec(ended.stderr)
  if (asked === null) return { ...ended, budget }
  expect(Number(asked[1])).toBeGreaterThanOrEqual(2 * Math.floor(budget) - 1)
  return untilMeasured(Number(asked[1]), ...line)
}

describe('zerohop tune', () => {
  it('writes a configuration that engine.load takes, within its budget', async () => {
    const line = ['-o', output('found'), '--json']
    const { code, stdout, stderr, budget } = await untilMeasured(repetitions(8, 4), ...line)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const { best, rows, seconds } = JSON.parse(stdout) as TuneResult
    expect(seconds).toBeLessThan(1.5 * budget)
    expect(best!.measured!.rowsPerSecond).toBeGreaterThan(0)
    expect(rows.some(({ isDefault }) => isDefault)).toBe(true)
    const config = JSON.parse(readFileSync(output('found'), 'utf8')) as ModelConfig
    expect(config.maxBatchSize).toBe(best!.candidate.configuration.maxBatchSize)
    const engine = new InferenceEngine()
    await engine.load('found', config)
    await engine.close()
    if (!full) return
    const again = await untilMeasured(3, ...line)
    expect(again.code).toBe(0)
    expect(JSON.parse(again.stdout).notes).toContainEqual(expect.stringMatching(/^goes on with what .* has/))
  })

  it.runIf(full)('keeps what was measured when it is interrupted, and leaves no process behind', async () => {
    const child = spawn(
      process.execPath,
      [`${root}dist/cli/main.js`, 'tune', model, '--budget', '60', '-o', output('stopped'), ...few],
      { stdio: ['ignore', 'pipe', 'pipe'], detached: true },
    )
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve)) // also of those that hold its pipes
    const hasMeasured = () =>
      existsSync(statePath('stopped')) &&
      readFileSync(statePath('stopped'), 'utf8').includes('"rowsPerSecond"')
    while (!hasMeasured() && child.exitCode === null) await sleep(20)
    process.kill(-child.pid!, 'SIGINT') // as a terminal does, to the whole group
    expect({ code: await ended, stderr }).toEqual({
      code: 130,
      stderr: expect.stringContaining(`interrupted; the measurements are in ${statePath('stopped')}`),
    })
    expect(existsSync(output('stopped'))).toBe(false)
    expect(() => process.kill(-child.pid!, 0)).toThrow('ESRCH')
  })

  it('goes on from what it has measured, says that nothing keeps a bound, and writes nothing', async () => {
    const { code, stdout, stderr } = await untilMeasured(
      repetitions(12, 4),
      '--memory',
      '1',
      '--request-rate', // which costs less than as many requests as can be
      '50',
      '-o',
      output('none'),
      '--state',
      statePath('found'),
    )
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('no configuration keeps the bounds'),
    })
    expect(stdout).toMatch(/^goes on with what .* has/m)
    expect(stdout).toContain('misses a bound')
    expect(existsSync(output('none'))).toBe(false)
  })

  it('tells the least useful budget where there is no time to measure anything, without an empty table or a state', async () => {
    const { code, stdout, stderr } = await zerohopAlone(
      'tune',
      model,
      ...few,
      '--budget',
      '0.6',
      '-o',
      output('hurried'),
    )
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: expect.not.stringContaining('rows/s'),
      stderr: expect.stringMatching(
        /^the time was too short to (load the model|measure anything): give a --budget of \d+ seconds or more$/m,
      ),
    })
    expect(existsSync(statePath('hurried'))).toBe(false)
  })

  it.each([
    ['a file that is not there', [join(folder, 'none.onnx')], 1, 'ERR_MODEL_NOT_FOUND'],
    [
      'a shape of no input',
      [model, '--shape', 'y:3'],
      1,
      'ERR_INVALID_ARG: shape: expected the name of an input',
    ],
    [
      'options that the engine does not have',
      [model, '--model-config', '{"maxBatch":1}'],
      1,
      'ERR_MODEL_CONFIG',
    ],
    [
      'an output in a folder that is not there',
      [model, '-o', join(folder, 'none', 'config.json')],
      1,
      'ENOENT: no such file or directory',
    ],
    ['an output that is a folder', [model, '-o', folder], 1, 'EISDIR'],
    ['the model as its output', [model, '-o', model], 1, 'output: expected a file other than the model'],
    ['the model as its state', [model, '--state', model], 1, 'state: expected a file other than the model'],
    [
      'the output as its state',
      [model, '--state', output('refused')],
      1,
      'state: expected a file other than the output',
    ],
    [
      'options that change what is measured',
      [model, '--model-config', '{"autoTune":true}'],
      1,
      '--model-config autoTune: expected none',
    ],
    [
      'budgets where nothing costs anything',
      [model, '--max-batch-costs', '5'],
      1,
      '--max-batch-costs: expected dynamicBatching.cost in --model-config',
    ],
    [
      'a provider that there is not',
      [model, '--provider', 'nonsense'],
      1,
      "expected one of 'auto', 'cpu', 'cuda', 'webgpu'",
    ],
    [
      'two loads',
      [model, '--request-rate', '1', '--concurrency', '2'],
      2,
      "cannot be used with option '--request-rate",
    ],
    ['a budget of nothing', [model, '--budget', '0'], 2, 'a number above 0'],
    [
      'a file of Triton for a provider that it does not have',
      [model, '--format', 'pbtxt', '--provider', 'openvino'],
      2,
      'cannot express --provider openvino',
    ],
  ])('refuses %s', async (_, line, code, message) => {
    const enough = ['--budget', '1000000'] // it counts from the start of the process, which others may have used as well
    const ended = await zerohop('tune', '-o', output('refused'), ...enough, ...line)
    expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(message) })
    expect([output('refused'), statePath('refused')].filter((path) => existsSync(path))).toEqual([])
  })
})
