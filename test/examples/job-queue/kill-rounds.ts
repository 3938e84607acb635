// kill -9 among the workers of examples/job-queue, round after round:
//   npm run test:kill-rounds -- [--rounds 20] [--jobs 1000] [--workers 3] [--kills 5] [--seed 1]
// With the digits of this repository, or with --model, --pictures and --image of your own.
import Table from 'cli-table3'
import { rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { mulberry32 } from '../../../src/base/numbers.ts'
import { packedExample } from '../packed-example.ts'
import { killRound, type RoundResult } from './kill-round.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    jobs: { type: 'string', default: '1000' },
    workers: { type: 'string', default: '3' },
    kills: { type: 'string', default: '5' },
    seed: { type: 'string', default: '1' },
    model: { type: 'string', default: 'examples/digits/model.onnx' },
    pictures: { type: 'string', default: 'examples/digits/images' },
    image: { type: 'string', default: '{"scale":1}' },
  },
})

const columns = {
  jobs: 'jobs',
  kills: 'kill -9',
  cutOff: 'held then',
  lost: 'lost',
  failed: 'failed',
  redone: 'done again',
  duplicates: 'stored twice',
  redoneOfLiving: 'done again, of the living',
  duplicatesOfLiving: 'stored twice, of the living',
  notEnded: 'SIGTERM ignored',
  seconds: 's',
} satisfies Record<keyof RoundResult, string>
const keys = Object.keys(columns) as (keyof RoundResult)[]
const row = (name: string, result: RoundResult) => [
  name,
  ...keys.map((key) => (key === 'seconds' ? result[key].toFixed(1) : result[key])),
]

const folder = packedExample('job-queue')
const random = mulberry32(Number(values.seed))
const results: RoundResult[] = []
try {
  for (let round = 1; round <= Number(values.rounds); round++) {
    const result = await killRound({
      folder,
      pictures: resolve(values.pictures),
      jobs: Number(values.jobs),
      workers: Number(values.workers),
      kills: Number(values.kills),
      random,
      settings: {
        MODEL: resolve(values.model),
        IMAGE: values.image,
        LOCK_MS: '5000',
        STALLED_MS: '1000',
        MAX_STALLS: values.kills,
      },
    })
    console.log(`round ${round}: ${JSON.stringify(result)}`)
    results.push(result)
  }
} finally {
  rmSync(folder, { recursive: true })
}

const table = new Table({ head: ['round', ...Object.values(columns)], style: { head: [], border: [] } })
for (const [index, result] of results.entries()) table.push(row(String(index + 1), result))
const all = results.reduce(
  (sum, result) =>
    Object.fromEntries(keys.map((key) => [key, sum[key] + result[key]])) as unknown as RoundResult,
)
table.push(row('all', all))
console.log(table.toString())
process.exitCode = all.lost + all.failed + all.duplicatesOfLiving + all.notEnded === 0 ? 0 : 1
