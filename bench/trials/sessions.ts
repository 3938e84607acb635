import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../child.ts'
import { benchModel, type BenchModel } from '../models.ts'
import type { SessionsRateInput } from '../programs/sessions-rate.ts'
import { takeTurns } from '../rounds.ts'
import { shownRange } from '../shown.ts'
import { executors, ourSides, type OurSide } from '../side.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { NumbersRow, Trial } from '../trial.ts'

const instances = 8

/** What each load of a file took, in milliseconds. */
interface SessionsLoadResult {
  readonly first: number
  readonly otherName: number
  readonly otherEngine: number
  readonly otherIsolate: number
}

const again = ['otherName', 'otherEngine', 'otherIsolate'] as const satisfies (keyof SessionsLoadResult)[]

/** What more instances of a model cost in memory, loads of a loaded file in time, and two workers on one session in speed. */
export const sessions: Trial = {
  describe:
    'ResNet-50 and -152: memory of the 2nd to 8th instance, second loads, two workers on one session against two',
  seconds: 5,
  async run({ seconds, rounds, smoke }) {
    const names = smoke ? (['mlp'] as const) : (['resnet50', 'resnet152'] as const)
    const found: ({ model: string; side: OurSide } & Awaited<ReturnType<typeof sharing>>)[] = []
    const rates = await inFolder(async (folder) => {
      for (const name of names) {
        // Where nothing else is written meanwhile: a file that comes or goes beside a model may be part of it.
        const alone = copyOf(benchModel(name), folder, name)
        for (const side of executors)
          found.push({ model: name, side, ...(await sharing(alone, side, rounds)) })
      }
      return oneAgainstTwo(benchModel(names[0]), folder, rounds, seconds)
    })
    const native = found.filter(({ side }) => side === 'native')
    const ratio = round(median(rates.one.map((one, index) => one / rates.two[index]!)), 3)
    return {
      ours: round(median(rates.one)),
      plain: round(median(rates.two)),
      unit: `rows/s of ${names[0]} by two workers, one session to two`,
      ratio,
      targets: [
        ...native.map(({ model, marginalMb }) =>
          atMost(2, `${model}: MB of each instance but the first`, marginalMb),
        ),
        ...native.flatMap(({ model, toFirst }) =>
          again.map((load) => atMost(0.05, `${model}: second load to the first, ${load}`, toFirst[load])),
        ),
        atLeast(0.98, 'two workers: rows/s on one session to those on two', ratio),
      ],
      numbers: [
        {
          question: `a second load of ${names.join(' or ')}, to the first; and each further instance`,
          ...(Object.fromEntries(
            [
              ['plain', 'binding'],
              ['zerohop', 'native'],
            ].map(([column, side]) => {
              const own = found.filter((each) => each.side === side)
              return [
                column,
                `${shownRange(
                  own.flatMap(({ toFirst }) => again.map((load) => round(100 * toFirst[load], 1))),
                  '%',
                )}, ${shownRange(
                  own.map(({ marginalMb }) => marginalMb),
                  'MB',
                )}`,
              ]
            }),
          ) as Pick<NumbersRow, 'plain' | 'zerohop'>),
          note: "one session for all; plain is onnxruntime-node's binding in the same engine",
        },
      ],
      rows: found.map(({ model, side, marginalMb, firstMs, toFirst }) => ({
        model,
        side,
        'MB per instance': marginalMb,
        'first load ms': firstMs,
        'other name': toFirst.otherName,
        'other engine': toFirst.otherEngine,
        'other isolate': toFirst.otherIsolate,
      })),
      settings: { instances, rowsPerSecond: rates },
      details: found,
    }
  },
}

async function sharing(path: string, side: OurSide, rounds: number) {
  const engine = ourSides[side]
  const memory = (instances: number) => () =>
    run<number>('programs/sessions-memory.mjs', { engine, path, instances }, ['--expose-gc'])
  const bytes = await takeTurns(rounds, { one: memory(1), all: memory(instances) })
  const loads: SessionsLoadResult[] = []
  const smallPath = benchModel('identity').path
  for (let count = 0; count < rounds; count++)
    loads.push(await run('programs/sessions-load.mjs', { engine, path, smallPath }))
  const toFirst = (load: (typeof again)[number]) =>
    round(median(loads.map((result) => result[load] / result.first)), 3)
  return {
    marginalMb: round((median(bytes.all) - median(bytes.one)) / (instances - 1) / 2 ** 20),
    firstMs: round(median(loads.map(({ first }) => first)), 1),
    toFirst: {
      otherName: toFirst('otherName'),
      otherEngine: toFirst('otherEngine'),
      otherIsolate: toFirst('otherIsolate'),
    },
    single: { bytes, loads },
  }
}

/** Rows a second of two workers; a copy of the file is a session of its own. */
function oneAgainstTwo(model: BenchModel, folder: string, rounds: number, seconds: number) {
  const [path, copy] = [copyOf(model, folder, 'one'), copyOf(model, folder, 'two')]
  const rate = (paths: readonly string[]) => () =>
    run<number>('programs/sessions-rate.ts', {
      model,
      paths,
      warmupSeconds: Math.min(1, seconds / 2),
      seconds,
    } satisfies SessionsRateInput)
  return takeTurns(rounds, { one: rate([path]), two: rate([path, copy]) })
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  try {
    return await work(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function copyOf({ path }: BenchModel, folder: string, name: string): string {
  const copy = join(folder, name, 'model.onnx')
  mkdirSync(join(folder, name))
  copyFileSync(path, copy)
  return copy
}
