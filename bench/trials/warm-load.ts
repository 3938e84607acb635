import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run, start } from '../child.ts'
import { pssBytes } from '../memory.ts'
import { benchModel } from '../models.ts'
import { withOwnNode } from '../own-node.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

/** Of one load in a new process. */
interface LoadTimes {
  readonly loadMs: number
  readonly firstMs: number
  readonly laterMs: number
  readonly outputs: readonly (readonly number[])[]
  readonly compiled?: boolean
  readonly reason?: string
}

const processes = 8

/** What the cache of compiled models saves: loads in new processes, and memory of processes that have the same model. */
export const warmLoad: Trial = {
  describe:
    'ResNet-152 out of the cache of compiled models: loads and first answers in new processes, memory of eight of them',
  async run({ rounds, smoke }) {
    const { path, input: name, rowDims } = benchModel(smoke ? 'mlp' : 'resnet152')
    const dir = mkdtempSync(join(tmpdir(), 'zerohop-'))
    try {
      const dims = [1, ...rowDims]
      const settings = { path, name, dims, later: 5, dir }
      const cold = await run<LoadTimes>('programs/cached-load.mjs', settings)
      const { plain, warm } = await takeTurns(rounds, {
        plain: () => run<LoadTimes>('programs/plain-create.mjs', settings),
        warm: () => run<LoadTimes>('programs/cached-load.mjs', settings),
      })
      const sums = await withOwnNode(async (node) => ({
        cached: await sumsOfPss(node, { path, name, dims, dir }),
        uncached: await sumsOfPss(node, { path, name, dims, dir: null }),
      }))
      const of = (times: readonly LoadTimes[], what: 'loadMs' | 'firstMs' | 'laterMs') =>
        round(median(times.map((all) => all[what])), 1)
      const loadRatio = round(median(warm.map(({ loadMs }, index) => loadMs / plain[index]!.loadMs)), 3)
      const firstRatio = round(median(warm.map(({ firstMs, laterMs }) => firstMs / laterMs)), 2)
      const further = round(Math.max(...steps(sums.cached).slice(1)) / sums.cached[0]!, 3)
      const difference = largestDifference(plain[0]!.outputs, warm[0]!.outputs)
      return {
        ours: of(warm, 'loadMs'),
        plain: of(plain, 'loadMs'),
        unit: 'ms a load in a new process',
        ratio: loadRatio,
        numbers: [
          {
            question: 'ResNet-152 in a new process: opened, or loaded out of the cache of compiled models',
            plain: `${shown(of(plain, 'loadMs'))} ms`,
            zerohop: `${shown(of(warm, 'loadMs'))} ms`,
            note: `${loadRatio} x`,
          },
          {
            question: `memory (PSS) of a process with it; of ${processes} together`,
            plain: `${shown(mb(sums.uncached[0]!))}, ${shown(mb(sums.uncached.at(-1)!))} MB`,
            zerohop: `${shown(mb(sums.cached[0]!))}, ${shown(mb(sums.cached.at(-1)!))} MB`,
            note: 'plain is an engine without that cache',
          },
        ],
        targets: [
          atMost(0.05, 'a warm load to a plain InferenceSession.create', loadRatio),
          atMost(1.2, 'the first inference after a warm load to a later one', firstRatio),
          atMost(0.12, "each further process's PSS to the first's", further),
          atMost(1e-5, "largest difference from the uncached model's outputs", difference),
        ],
        rows: sums.cached.map((bytes, index) => ({
          processes: index + 1,
          'PSS in all, MB': mb(bytes),
          'without cache, MB': mb(sums.uncached[index]!),
        })),
        settings: {
          compiled: warm[0]!.compiled!, reason: warm[0]!.reason!, coldLoadMs: round(cold.loadMs),
          memory: 'plain Node on compiled code, looked at after one request and a gc; no other process has their Node',
          firstMs: of(warm, 'firstMs'), laterMs: of(warm, 'laterMs'), plainFirstMs: of(plain, 'firstMs'), plainLaterMs: of(plain, 'laterMs'),
        }, // prettier-ignore
        details: {
          cold: { ...cold, outputs: [] },
          plain: plain.map((times) => ({ ...times, outputs: [] })),
          warm: warm.map((times) => ({ ...times, outputs: [] })),
          sums,
        },
      }
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  },
}

/** The summed PSS of one process with the model, of two, and so on, in bytes. */
async function sumsOfPss(
  node: string,
  settings: { path: string; name: string; dims: readonly number[]; dir: string | null },
): Promise<number[]> {
  const running: ReturnType<typeof start>[] = []
  const sums: number[] = []
  try {
    for (let count = 0; count < processes; count++) {
      const next = start('programs/cached-memory.mjs', settings, ['--expose-gc'], {}, node)
      running.push(next)
      next.result.catch(() => {})
      await Promise.race([once(next.child, 'message'), next.result])
      sums.push(running.reduce((sum, { child }) => sum + pssBytes(child.pid!), 0))
    }
  } finally {
    for (const { child } of running) child.send('go')
  }
  await Promise.all(running.map(({ result }) => result))
  return sums
}

const mb = (bytes: number) => round(bytes / 2 ** 20)
const steps = (sums: readonly number[]) => sums.map((sum, index) => sum - (sums[index - 1] ?? 0))

/** Relative to the largest value. */
function largestDifference(a: LoadTimes['outputs'], b: LoadTimes['outputs']): number {
  const [one, other] = [a.flat(), b.flat()]
  const largest = Math.max(...one.map(Math.abs))
  return Math.max(...one.map((value, index) => Math.abs(value - other[index]!))) / largest
}
