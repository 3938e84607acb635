import { run } from '../child.ts'
import { rate, rateRatio } from '../closed-loops.ts'
import { benchModel } from '../models.ts'
import type { ClosedLoop, ClosedLoopResult } from '../programs/closed-loop.ts'
import { takeTurns } from '../rounds.ts'
import { shownAll } from '../shown.ts'
import type { LoadSettings } from '../side.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { NumbersRow, Trial } from '../trial.ts'

interface Load {
  readonly what: string
  readonly settings: LoadSettings
  /** Largest batch of dataloader: it is at its best with the largest, ours with its default of 32. */
  readonly dataloaderBatch: number
  readonly callers: readonly number[]
  /** What ours has to give at least, to the best of the others. */
  readonly atLeast: number
}

/** Where the callers are. */
const ways = [
  ['in process', 'programs/closed-loop.ts'],
  ['http', 'programs/http-loop.ts'],
] as const

function loads(smoke: boolean): Load[] {
  const mlp = {
    what: 'MLP',
    settings: { model: benchModel('mlp'), maxBatchSize: 32, intraOpNumThreads: 1 },
    dataloaderBatch: 64,
    atLeast: 1,
  }
  if (smoke) return [{ ...mlp, callers: [8] }]
  return [
    { ...mlp, callers: [1, 8, 64, 256] },
    {
      what: 'ResNet-50',
      settings: { model: benchModel('resnet50'), maxBatchSize: 8 },
      dataloaderBatch: 8,
      callers: [1, 8, 32],
      atLeast: 0.98,
    },
  ]
}

const p99Ms = (results: readonly ClosedLoopResult[]) =>
  median(results.map(({ loopDelay }) => loopDelay.p99Ms))

/** The other ways to share a model in one process: whoever uses ours loses nothing to them, at no number of callers. */
export const batchers: Trial = {
  describe:
    "MLP and ResNet-50, in process and behind Fastify, against dataloader on the application's thread and a session per Piscina thread",
  seconds: 3,
  async run({ seconds, rounds, smoke }) {
    const rows: ReturnType<typeof row>[] = []
    const targets = []
    const details: Record<string, unknown> = {}
    for (const { what, settings, dataloaderBatch, callers, atLeast: least } of loads(smoke)) {
      for (const [way, program] of ways) {
        const found = []
        for (const concurrency of callers) {
          const base = { ...settings, concurrency, warmupSeconds: Math.min(1, seconds / 2), seconds }
          const measure = (side: ClosedLoop['side'], changes?: Partial<ClosedLoop>) => () =>
            run<ClosedLoopResult>(program, { ...base, ...changes, side } satisfies ClosedLoop)
          const results = await takeTurns(rounds, {
            dataloader: measure('dataloader', { maxBatchSize: dataloaderBatch }),
            piscina: measure('piscina'),
            native: measure('native'),
            binding: measure('binding'),
          })
          details[`${what}, ${way}, ${concurrency} callers`] = results
          found.push(row(`${what}, ${way}`, concurrency, results))
        }
        rows.push(...found)
        const lowest = Math.min(...found.map((row) => row['native to best']))
        const excess = Math.max(
          ...found.map(
            (row) => row['native p99 ms'] - Math.max(row['dataloader p99 ms'], row['piscina p99 ms']),
          ),
        )
        targets.push(
          atLeast(least, `${what}, ${way}: native to the best of the others, the lowest`, lowest),
          atMost(
            0,
            `${what}, ${way}: p99 of native's event loop above theirs, in ms, the most`,
            round(excess),
          ),
        )
      }
    }
    const last = rows[ways.length * loads(smoke)[0]!.callers.length - 1]!
    return {
      ours: last['native /s'],
      plain: Math.max(last['dataloader /s'], last['piscina /s']),
      unit: `requests/s of ${last.callers} callers, ${last.what}`,
      ratio: last['native to best'],
      targets,
      rows,
      numbers: loads(smoke).map(({ what }) =>
        numbersOf(
          what,
          rows.filter((row) => row.what === `${what}, in process`),
        ),
      ),
      settings: {
        loads: loads(smoke),
        dataloader: 'by setImmediate',
        piscina: 'a thread per core, one ONNX Runtime thread each',
      },
      details,
    }
  },
}

function numbersOf(what: string, rows: readonly ReturnType<typeof row>[]): NumbersRow {
  return {
    question: `${what} beside a batcher of 50 lines (dataloader, on the application's thread): ${rows.map(({ callers }) => callers).join(', ')} callers`,
    plain: shownAll(
      rows.map((each) => each['dataloader /s']),
      '/s',
    ),
    zerohop: shownAll(
      rows.map((each) => each['native /s']),
      '/s',
    ),
    note: `${rows.map((each) => each['native to best']).join(', ')} x the better of that and a session per Piscina thread`,
  }
}

function row(
  what: string,
  callers: number,
  found: Readonly<Record<'dataloader' | 'piscina' | 'native' | 'binding', ClosedLoopResult[]>>,
) {
  const best = rate(found.dataloader) >= rate(found.piscina) ? found.dataloader : found.piscina
  return {
    what,
    callers,
    'dataloader /s': round(rate(found.dataloader), 1),
    'piscina /s': round(rate(found.piscina), 1),
    'native /s': round(rate(found.native), 1),
    'binding /s': round(rate(found.binding), 1),
    'native to best': round(rateRatio(found.native, best)),
    'binding to best': round(rateRatio(found.binding, best)),
    'dataloader p99 ms': round(p99Ms(found.dataloader)),
    'piscina p99 ms': round(p99Ms(found.piscina)),
    'native p99 ms': round(p99Ms(found.native)),
    'binding p99 ms': round(p99Ms(found.binding)),
  }
}
