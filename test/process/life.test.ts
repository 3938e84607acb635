import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { full, repetitions } from '../support/full.ts'
import { endsEachTime, inOneProcess, limitMs, runFixture, testTimeoutMs, waitsEachTime } from './child.ts'

// Two requests had been handed over: the running one and the one behind it. They are finished in any case.
const drained = [true, true, true, true, 'ERR_CLOSED', 'closed']
const dropped = ['ERR_CLOSED', 'ERR_CLOSED', 'ERR_CLOSED', 'ERR_CLOSED', 'ERR_CLOSED', 'closed']

const closings: [scenario: string, answer: unknown][] = [
  ['close during a run', drained],
  ['close with a limit during a run', dropped],
  ['destroy during a run', dropped],
  ['destroy while close drains', dropped],
  ['close during load', ['ERR_CLOSED', [], 'ERR_CLOSED']],
  ['destroy during load', ['ERR_CLOSED', [], 'ERR_CLOSED']],
  ['close while the worker starts', 'ERR_CLOSED'],
  ['unload during a run', [true, 'closed']],
  ['await using', [true, 'ERR_CLOSED']],
  ['two engines', [true, true, true, true, 'ERR_CLOSED', true]],
  ['many engines one after another', []],
]

describe('an engine that closes', () => {
  it.each(inOneProcess(closings))(
    'settles everything and lets the process end: %s',
    { timeout: testTimeoutMs },
    (scenario, answer) => endsEachTime('life.mjs', scenario, { answer }),
  )
})

describe('an open engine', () => {
  const idle = inOneProcess([
    ['an engine that was never used', 0],
    ['an idle open engine', true],
  ])

  it.each(['native', 'binding'].flatMap((executor) => idle.map((each) => [executor, ...each] as const)))(
    'does not keep the process alive, with the executor %s: %s',
    { timeout: testTimeoutMs },
    (executor, scenario, answer) =>
      endsEachTime('life.mjs', scenario, { answer }, [], { ZEROHOP_EXECUTOR: executor }),
  )

  it('keeps it alive while something is in flight', { timeout: testTimeoutMs }, () =>
    endsEachTime('life.mjs', 'in flight and nothing else', { answer: ['ready', true, 'idle', 0, 'closed'] }),
  )
})

const matching = (text: RegExp) => expect.stringMatching(text)

const failures: [way: string, code: string, message: RegExp][] = [
  [
    'throws',
    'ERR_MODEL_LOAD',
    /^workers of model 'small': expected a worker thread that keeps running, received 'thrown at start on purpose'\. Load it again once the cause is removed: that starts a new thread$/,
  ],
  ['exits', 'ERR_MODEL_LOAD', /received 'the worker thread ended with exit code 3'\. Load it again/],
  [
    'exits as it loads ONNX Runtime',
    'ERR_MODEL_LOAD',
    /received 'the worker thread ended with exit code 5'\. Load it again/,
  ],
  [
    'onnxruntime-node is missing',
    'ERR_NATIVE_LOAD',
    /received 'Cannot find module 'onnxruntime-node''\. Run `npm install onnxruntime-node`\.$/,
  ],
  [
    'onnxruntime-node is too old',
    'ERR_NATIVE_LOAD',
    /expected onnxruntime-node 1\.25 or newer.*received 'its version 1\.24\.3 is older/,
  ],
  [
    'onnxruntime-node cannot be loaded',
    'ERR_NATIVE_LOAD',
    /cannot open shared object file.*run `npm install onnxruntime-node` again\.$/,
  ],
]

const forGood: [way: string, code: string, message: RegExp][] = [
  ['cannot be made at all', 'ERR_MODEL_LOAD', /--foo/],
  ['gets no memory for its stack', 'ERR_MODEL_LOAD', /EAGAIN/],
  ['may load no addons', 'ERR_NATIVE_LOAD', /loading addons is disabled.*without --no-addons/],
]

const failing = [...failures, ...forGood].map(([way, code, message]) => {
  const failure = [code, matching(message)]
  const again = forGood.some(([each]) => each === way) ? [] : [true]
  return [way, [[failure, failure], ...again, 0]] as const
})

describe('a worker that does not start', () => {
  it.each(inOneProcess(failing))(
    'fails each load and leaves no thread; where its cause may go, the next load tries afresh: %s',
    { timeout: testTimeoutMs },
    (ways, answer) => endsEachTime('start.mjs', ways, { answer }),
  )

  const closed = [['throws', 'ERR_MODEL_LOAD']]
  if (full) closed.push(['onnxruntime-node is missing', 'ERR_NATIVE_LOAD'])
  it.each(closed)('lets the engine be closed at any moment: %s', { timeout: testTimeoutMs }, (way, code) =>
    endsEachTime('start.mjs', `${way}, and the engine is closed`, { answer: [['ERR_CLOSED', code]] }),
  )
})

// At once: they do nothing but wait.
describe.concurrent('over time', () => {
  it(
    'an idle engine with loaded models has no timers and uses less than 0.5 % of a core',
    { timeout: limitMs + 10_000 },
    async () => {
      const { code, signal, answer, stderr } = await runFixture('idle.mjs', String(repetitions(10, 5)))
      expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' })
      const [answers, timers, medianShare] = answer as [boolean[], string[], number]
      expect(answers).toEqual([true, true, true, true, true, true])
      expect(timers).toEqual([])
      expect(medianShare).toBeLessThan(0.005)
    },
  )

  const late = (ms: number) => [
    'ERR_MODEL_LOAD',
    matching(new RegExp(`received 'The worker did not start within ${ms} ms\\.'\\. Load it again`)),
  ]

  it(
    'a worker that hangs at its start fails each load, leaves no thread, and the next load tries afresh',
    { timeout: testTimeoutMs },
    () => waitsEachTime('start.mjs', 'hangs', { answer: [[[late(1000), late(1000)], true, 0]] }),
  )

  it('a worker that hangs inside ONNX Runtime at its start is detached', { timeout: testTimeoutMs }, () =>
    waitsEachTime('start.mjs', 'hangs as it loads ONNX Runtime', {
      answer: [[[late(1000), late(1000)], true, true]],
    }),
  )

  it('a detached worker ends when it comes back from ONNX Runtime', { timeout: testTimeoutMs }, () =>
    waitsEachTime('start.mjs', 'hangs as it loads ONNX Runtime, and the engine lives on', {
      answer: [['ERR_MODEL_LOAD', true]],
    }),
  )

  it.each(full ? ['hangs', 'hangs as it loads ONNX Runtime'] : ['hangs as it loads ONNX Runtime'])(
    'an engine whose worker does not start can be closed at any moment: it %s',
    { timeout: testTimeoutMs },
    (way) =>
      waitsEachTime('start.mjs', `${way}, and the engine is closed`, {
        answer: [['ERR_CLOSED', 'ERR_MODEL_LOAD']],
      }),
  )
})

describe('ONNX Runtime in a worker', () => {
  it.each(full ? ['by default', 'workers with an environment of their own'] : ['by default'])(
    'leaves no log and no database of its telemetry: %s',
    { timeout: testTimeoutMs },
    (scenario) => endsEachTime('telemetry.mjs', scenario, { answer: [true, true, []] }),
  )
})

const permission = process.allowedNodeEnvironmentFlags.has('--permission')
  ? '--permission'
  : '--experimental-permission'
const told = async (allowed: string[], executor = 'native') =>
  (
    await runFixture('permission.mjs', '', [permission, '--allow-fs-read=*', ...allowed], {
      ZEROHOP_EXECUTOR: executor,
    })
  ).answer

it(
  "under Node's permission model a model is served with what the page on installing says",
  { timeout: limitMs },
  async () => {
    expect(await told(['--allow-addons'])).toBe('answered')
  },
)

it.each([
  ['on a thread', 1, []],
  ["without one under Node's permission model", 0, [permission, '--allow-fs-read=*', '--allow-addons']],
])('a large graph is proved %s', { timeout: limitMs }, async (_, threads, flags) => {
  const ending = await runFixture('prover.mjs', '', flags, { ZEROHOP_EXECUTOR: 'native' })
  expect(ending.answer).toEqual(['independent', 'proved', threads])
})

it('the option that is missing is named', { timeout: 2 * limitMs }, async () => {
  expect(await told(['--allow-addons'], 'binding')).toEqual({
    code: 'ERR_MODEL_LOAD',
    message: expect.stringContaining('Start Node with --allow-worker beside --permission'),
  })
  expect(await told(['--allow-worker'])).toEqual({
    code: 'ERR_NATIVE_LOAD',
    message: expect.stringContaining('with --permission, add --allow-addons'),
  })
})

const root = fileURLToPath(new URL('../..', import.meta.url))

/** A folder in which this package is installed, with all that is installed here but onnxruntime-node. */
function project(): string {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-alone-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, 'zerohop'), { recursive: true })
  for (const name of ['dist', 'package.json', 'build'])
    symlinkSync(join(root, name), join(modules, 'zerohop', name))
  for (const name of readdirSync(join(root, 'node_modules')))
    if (!['onnxruntime-node', 'zerohop', '.bin'].includes(name))
      symlinkSync(join(root, 'node_modules', name), join(modules, name))
  return folder
}

it(
  'without onnxruntime-node a load says what to install, and nothing is said of a fallback that there is not',
  { timeout: limitMs },
  async () => {
    const folder = project()
    const main = `import { InferenceEngine } from 'zerohop'
const engine = new InferenceEngine()
await engine.load('digits', { path: process.argv[2] }).catch(({ code, message }) => console.log(code, message))
await engine.close()
`
    writeFileSync(join(folder, 'main.mjs'), main)
    // Else what is linked to would find what lies beside it here.
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ['--preserve-symlinks', '--no-deprecation', 'main.mjs', join(root, 'examples/digits/model.onnx')],
      { cwd: folder },
    )
    expect(stdout).toMatch(
      /^ERR_NATIVE_LOAD onnxruntime-node cannot be loaded: .*Run `npm install onnxruntime-node`\.$/m,
    )
    expect(stderr).not.toContain('ZEROHOP_EXECUTOR_FALLBACK')
  },
)
