import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import { benchModel, type BenchModel } from '../models.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atMost, type Target } from '../targets.ts'
import type { Trial } from '../trial.ts'

/** What one of both found. */
interface Found {
  readonly perSecond: number
  readonly p99Us: number
}

const program = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const concurrencies = [1, 8, 64]
/** Two processes that do the same differ by several per cent: three rounds do not tell them from one that is 3 % slower. */
const timesTheRounds = 3

/** Whether `zerohop perf` tells what is there. */
export const perf: Trial = {
  describe: 'throughput and p99 as zerohop perf has them, against a loop that is written by hand',
  seconds: 3,
  async run({ seconds, rounds: asked, smoke }) {
    const rounds = smoke ? asked : timesTheRounds * asked
    const models: Record<string, BenchModel> = { identity: benchModel('identity'), MLP: benchModel('mlp') }
    if (hasShared && !smoke)
      models['SqueezeNet'] = {
        path: sharedPath('models/squeezenet/model.onnx'),
        input: 'data_0',
        rowDims: [3, 224, 224],
      }
    const rows: Record<string, string | number>[] = []
    const targets: Target[] = []
    for (const [name, model] of Object.entries(models)) {
      for (const concurrency of smoke ? [1] : concurrencies) {
        const found = await takeTurns<'hand' | 'perf', Found>(rounds, {
          hand: () =>
            run('programs/hand-written-loop.mjs', {
              ...model,
              concurrency,
              warmupSeconds: seconds / 6,
              seconds,
            }),
          perf: () => analyzed(model, concurrency, seconds),
        })
        const medians = (side: 'hand' | 'perf', of: keyof Found) =>
          median(found[side].map((each) => each[of]))
        // Each round met the machine in one state; the p99 of single rounds is what their worst moment was.
        const throughput = median(
          found.perf.map(({ perSecond }, index) => perSecond / found.hand[index]!.perSecond),
        )
        const p99 = medians('perf', 'p99Us') / medians('hand', 'p99Us')
        rows.push({
          model: name,
          concurrency,
          'by hand /s': round(medians('hand', 'perSecond'), 0),
          'perf /s': round(medians('perf', 'perSecond'), 0),
          'perf to hand': round(throughput, 3),
          'by hand p99 us': round(medians('hand', 'p99Us'), 1),
          'perf p99 us': round(medians('perf', 'p99Us'), 1),
          'p99 perf to hand': round(p99, 3),
        })
        targets.push(
          atMost(
            0.03,
            `${name}, ${concurrency} at once: throughput differs by`,
            round(Math.abs(throughput - 1), 3),
          ),
          atMost(0.1, `${name}, ${concurrency} at once: p99 differs by`, round(Math.abs(p99 - 1), 3)),
        )
      }
    }
    const of = (what: string) => median(rows.map((row) => Number(row[what])))
    return {
      ours: of('perf /s'),
      plain: of('by hand /s'),
      unit: 'requests/s, median of the rows',
      ratio: of('perf to hand'),
      targets,
      rows,
      settings: { concurrencies, seconds, rounds },
    }
  },
}

/** What `zerohop perf` says: its three windows take as long as the loop's one, after as long a time of warming up. */
async function analyzed({ path }: BenchModel, concurrency: number, seconds: number): Promise<Found> {
  const folder = mkdtempSync(join(tmpdir(), 'perf-'))
  const csv = join(folder, 'levels.csv')
  try {
    // The first of four windows is that of warming up: agreement is not asked for, and three are told of.
    const windowMs = (seconds * 1000) / 3 / 1.2
    const line = [
      'perf',
      '-m',
      path,
      '--concurrency-range',
      String(concurrency),
      '-p',
      String(windowMs),
      '-r',
      '4',
      '-s',
      '0.0001',
      '-f',
      csv,
    ]
    await new Promise<void>((resolve, reject) => {
      execFile(
        process.execPath,
        [program, ...line],
        { env: { ...process.env, ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' } },
        (error) => {
          // 2: its windows differ, by more than nothing.
          if (error === null || error.code === 2) resolve()
          else reject(error)
        },
      )
    })
    const [names, values] = readFileSync(csv, 'utf8')
      .split('\n')
      .map((each) => each.split(','))
    const of = (name: string) => Number(values![names!.indexOf(name)])
    return { perSecond: of('Inferences/Second'), p99Us: of('p99 latency') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
