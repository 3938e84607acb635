import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { models } from './models.ts'
import { full, repetitions } from '../support/full.ts'

/** How often each ending is tried: one that goes wrong now and then does go wrong. `REPEAT=20` looks closer, for half an hour. */
export const repeat = Number(process.env.REPEAT ?? repetitions(4, 1))
/**
 * A child that has not ended by then hangs. Closing during a run takes 4 to 6 s of CPU, which is 50 s where many others
 * compute.
 */
export const limitMs = 120_000
/** For a test that runs its child `repeat` times. */
export const testTimeoutMs = (repeat + 1) * limitMs

const node = process.env.ZEROHOP_TEST_NODE ?? process.execPath

/** How a child process ended, and what it had to say. */
export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly hung: boolean
  /** What it reported last, by `report()` of the fixtures. */
  readonly answer: unknown
  readonly stderr: string
}

/** Runs a fixture in a separate process: `scenario` is its first argument. */
export async function runFixture(
  fixture: string,
  scenario: string,
  flags: readonly string[] = [],
  environment: NodeJS.ProcessEnv = {},
  hangsAfterMs = limitMs,
): Promise<Ending> {
  const file = fileURLToPath(new URL(`fixtures/${fixture}`, import.meta.url))
  if (!existsSync(file)) throw new Error(`there is no fixture ${file}`)
  const child = spawn(node, [...flags, file, scenario], {
    env: { ...process.env, ...environment, ZEROHOP_TEST_MODELS: JSON.stringify(models()) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  let hung = false
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const limit = setTimeout(() => {
    hung = true
    child.kill('SIGKILL')
  }, hangsAfterMs)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      clearTimeout(limit)
      const lastLine = stdout.trimEnd().split('\n').at(-1)
      resolve({ code, signal, hung, answer: lastLine ? JSON.parse(lastLine) : undefined, stderr })
    })
  })
}

/** What is expected of an {@link Ending}; code 0, no signal and nothing on stderr unless said otherwise. */
export interface Expected {
  readonly code?: number | null
  readonly signal?: NodeJS.Signals
  readonly answer?: unknown
  readonly stderr?: RegExp
}

/**
 * Scenarios that end by themselves, for a fixture that reports each: in `npm run test:full` each has a process of its
 * own, in `npm test` they follow one another in one, since each start of a process costs a third of a second.
 */
export const inOneProcess = (cases: readonly (readonly [scenario: string, answer: unknown])[]) =>
  (full ? cases.map((each) => [each]) : [cases]).map((group): [scenarios: string, answers: unknown[]] => [
    group.map(([scenario]) => scenario).join('; '),
    group.map(([, answer]) => answer),
  ])

/** Runs a fixture `repeat` times and expects the same good ending each time. */
export async function endsEachTime(
  fixture: string,
  scenario: string,
  expected: Expected,
  flags: readonly string[] = [],
  environment: NodeJS.ProcessEnv = {},
) {
  for (let attempt = 1; attempt <= repeat; attempt++)
    expectEnding(await runFixture(fixture, scenario, flags, environment), expected, attempt)
}

/** The same of a fixture that waits for seconds: two at a time. */
export async function waitsEachTime(fixture: string, scenario: string, expected: Expected) {
  for (let first = 1; first <= repeat; first += 2) {
    const count = Math.min(2, repeat - first + 1)
    const endings = await Promise.all(Array.from({ length: count }, () => runFixture(fixture, scenario)))
    for (const [index, ending] of endings.entries()) expectEnding(ending, expected, first + index)
  }
}

function expectEnding(ending: Ending, expected: Expected, attempt: number): void {
  const { code = 0, signal = null, answer, stderr = /^$/ } = expected
  expect(ending, `attempt ${attempt} of ${repeat}`).toEqual({
    code,
    signal,
    hung: false,
    answer,
    stderr: expect.stringMatching(stderr),
  })
}
