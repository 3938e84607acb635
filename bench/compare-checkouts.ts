// What a change costs: tsx bench/compare-checkouts.ts ../before [rounds] [seconds] [callers]. Another checkout, built, and this one in turns: the MLP
// in closed loops of as many callers, each in a process of its own; at last the median over the rounds of ours to the other's, and the least CPU time for a row, which others on the machine change less.
import { fork } from 'node:child_process'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { benchModel } from './models.ts'
import type { ClosedLoop, ClosedLoopResult } from './programs/closed-loop.ts'
import { takeTurns } from './rounds.ts'
import { median, round } from './statistics.ts'

const [other, rounds = 15, seconds = 2, callers = 256] = process.argv.slice(2)
if (other === undefined)
  throw new Error('Say where the other checkout is: tsx bench/compare-checkouts.ts ../before')

const loop: ClosedLoop = {
  side: 'native', model: benchModel('mlp'), intraOpNumThreads: 1, maxBatchSize: 64, concurrency: Number(callers), warmupSeconds: 1, seconds: Number(seconds),
} // prettier-ignore

function measure(checkout: string): Promise<ClosedLoopResult> {
  // Its own program: what that imports as zerohop is the package that it lies in.
  const file = join(checkout, 'bench/programs/closed-loop.ts')
  const child = fork(file, [JSON.stringify(loop)], {
    cwd: checkout,
    execArgv: ['--import', 'tsx'],
    env: { ...process.env, ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' },
  })
  return new Promise((settle, reject) => {
    child.once('message', (result: ClosedLoopResult) => settle(result))
    child.once('exit', (code) => reject(new Error(`${file} ended with code ${code}`))) // of no effect after its answer
  })
}

const here = fileURLToPath(new URL('..', import.meta.url))
const found = await takeTurns(Number(rounds), {
  before: () => measure(resolve(other)),
  after: () => measure(here),
})
const ratios = found.after.map(({ rowsPerSecond }, at) => rowsPerSecond / found.before[at]!.rowsPerSecond)
console.log(
  `before ${round(median(found.before.map(({ rowsPerSecond }) => rowsPerSecond)))} /s, after ${round(median(found.after.map(({ rowsPerSecond }) => rowsPerSecond)))} /s`,
)
console.log(`after to before, round by round: ${ratios.map((ratio) => round(ratio, 3)).join(' ')}`)
console.log(`median ${round(median(ratios), 3)}`)
const leastCpuUs = (results: readonly ClosedLoopResult[]) =>
  round(Math.min(...results.map(({ cpuUsPerRow }) => cpuUsPerRow ?? NaN)), 3) // old checkouts do not report it
console.log(`CPU for a row: before ${leastCpuUs(found.before)} us, after ${leastCpuUs(found.after)} us`)
