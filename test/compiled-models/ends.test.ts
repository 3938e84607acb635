import { fork } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { mulberry32 } from '../models/random.ts'
import { repetitions } from '../support/full.ts'
import { until } from '../support/until.ts'
import { ownFolder, plainLoad } from './cached.ts'
import { loadElsewhere } from './in-processes.ts'
import { perceptron, unfollowed } from './models.ts'

/** `REPEAT=1000` looks closer, for half an hour; `SEED` is that of the first. */
const count = Number(process.env['REPEAT'] ?? repetitions(100, 2))
const firstSeed = Number(process.env['SEED'] ?? 1)

const program = fileURLToPath(new URL('fixtures/ended.mjs', import.meta.url))
/** In the order in which they come, but for the last three. */
const stages = [
  'loading',
  'spawned',
  'started',
  'writing',
  'model',
  'comparing',
  'tried',
  'serving',
  'resting',
  'joining',
  'sealed',
] as const
const ways = ['SIGKILL', 'SIGKILL', 'kill the child', 'unload', 'close', 'destroy', 'exit', 'abort'] as const
const ended = new Set(['ERR_CLOSED', 'ERR_MODEL_NOT_READY'])

/** What the program says before it ends by itself. */
interface Said {
  /** Of the child process that it started last; 0 for none. */
  readonly pid: number
  readonly stages: readonly string[]
  readonly answers: number
  /** An answer that is another than expected. */
  readonly wrong: readonly number[] | null
  readonly longestMs: number
  /** Of requests that were not answered. */
  readonly codes: readonly string[]
  readonly loadError: string | null
}

function drawn(seed: number) {
  const random = mulberry32(seed * 7919)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const [stage, way] = [pick(stages), pick(ways)]
  const afterMs = pick([0, 1, 5, 20, 60]) * random()
  return { seed, stage, way, afterMs, others: random() < 0.03 ? 7 : 0 }
}

/** The same model with a property that tells it from all others; the graph of every other one proves that its rows are independent. */
function writeModel(path: string, seed: number): void {
  const name = Buffer.from([10, 4, ...Buffer.from('seed')])
  const value = Buffer.from([18, 8, ...Buffer.from(String(seed).padStart(8, '0'))])
  const field = Buffer.from([(14 << 3) | 2, name.length + value.length])
  const source = readFileSync(seed % 2 === 0 ? perceptron() : unfollowed())
  writeFileSync(path, Buffer.concat([source, field, name, value]))
}

/** Runs the program until it has ended: by itself, or killed from here. */
function ending(argument: { readonly afterMs: number; readonly [more: string]: unknown }) {
  const child = fork(program, [JSON.stringify(argument)], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  let said: Said | null = null
  let pid = 0
  let stderr = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  child.on('message', (word: Said | { pid: number } | 'kill me') => {
    if (word === 'kill me') setTimeout(() => child.kill('SIGKILL'), argument.afterMs)
    else if ('answers' in word) said = word
    else pid = word.pid
  })
  const limit = setTimeout(() => child.kill('SIGABRT'), 60_000)
  return new Promise<{ said: Said | null; pid: number; code: number | null; stderr: string }>((resolve) =>
    child.once('close', (code, signal) => {
      clearTimeout(limit)
      resolve({ said, pid, code: signal === 'SIGKILL' ? 137 : code, stderr })
    }),
  )
}

const isThere = (pid: number) =>
  existsSync(`/proc/${pid}`) && !readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ')

it(
  `a first load may end at any moment and in any way (${count} times)`,
  { timeout: 60_000 + count * 10_000 },
  async () => {
    const dir = ownFolder()
    const path = join(ownFolder(), 'model.onnx')
    const answers = [await plainLoad({ path: perceptron() }), await plainLoad({ path: unfollowed() })]
    const left = () =>
      ['unfinished', 'locks'].flatMap((room) => readdirSync(join(dir, 'compiled-models-v1', room)))
    for (let seed = firstSeed; seed < firstSeed + count; seed++) {
      const draw = drawn(seed)
      const expected = answers[seed % 2]!
      writeModel(path, seed)
      const beside = Array.from({ length: draw.others }, () => loadElsewhere(dir, path).loaded)
      const end = await ending({ ...draw, dir, path, expected })
      const how = `SEED=${seed} REPEAT=1 ${JSON.stringify({ draw, end })}`
      const isCut = end.code === (draw.way === 'SIGKILL' ? 137 : draw.way === 'exit' ? 7 : -1)
      if (!isCut) expectGoodEnd(draw.way, end, how)
      for (const other of await Promise.all(beside)) expect(other?.y, how).toEqual(expected)
      if (end.pid > 0) await until(() => !isThere(end.pid))
      expect(end.pid > 0 && isThere(end.pid), how).toBe(false)

      const fresh = await loadElsewhere(dir, path).loaded
      expect([fresh?.y, fresh?.warnings], how).toEqual([expected, []])
      // A model over whose writing a process has ended is not compiled for a day.
      if (draw.way !== 'kill the child') expect(fresh!.compiled, `${how} ${fresh!.reason}`).toBe(true)
      // The next process that compiles a model removes the files that one end has left. One that ends before it has removed a dead
      // lock leaves it to the next.
      for (let more = 0; fresh!.children > 0 && left().length > 0 && more < 3; more++) {
        writeModel(path, -10 * seed - more)
        await loadElsewhere(dir, path).loaded
      }
      expect(left().length, `${how} ${left().join()}`).toBeLessThanOrEqual(fresh!.children > 0 ? 0 : 7)
    }
    writeModel(path, -1)
    await loadElsewhere(dir, path).loaded
    expect(left()).toEqual([])
  },
)

/** Of a process that was not cut off: its stage may not have come, or it has ended in order. */
function expectGoodEnd(way: string, { said, code, stderr }: Awaited<ReturnType<typeof ending>>, how: string) {
  const isToldOf = way === 'kill the child' && stderr.includes('ZEROHOP_VERIFY_FALLBACK')
  expect([code, isToldOf ? '' : stderr], how).toEqual([0, ''])
  expect(said!.wrong, how).toBe(null)
  expect(
    said!.codes.filter((each) => !ended.has(each)),
    how,
  ).toEqual([])
  const loadError =
    way === 'kill the child' ? 'ERR_MODEL_LOAD' : way === 'abort' ? 'no longer wanted' : 'ERR_CLOSED'
  expect([null, loadError], how).toContain(said!.loadError)
  // Neither for the learning nor for the sealing: those take longer together.
  expect(said!.longestMs, how).toBeLessThan(2000)
}
