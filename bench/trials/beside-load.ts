import { ortForm } from '../../test/support/ort-form.ts'
import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import { benchModel, matmulChain, type BenchModel } from '../models.ts'
import type { BesideLoadInput, BesideLoadResult, Requests } from '../programs/beside-load.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

type Side = Pick<BesideLoadInput, 'served' | 'callers' | 'pauseMs'>
const itself = 'the checked model itself'

/** A first load tries and compiles a model while others serve. Then its rows may have to be checked. */
export const besideLoad: Trial = {
  describe:
    'requests to a model while another is loaded for the first time and while its rows are checked, and while a plain process computes as much',
  reading:
    'The plain process has normal priority and shows what the machine allows. The checked model is also asked itself: the time by which its slowest request exceeds the usual one is given in runs of one row, and relative to the longest run of the check.',
  seconds: 2,
  async run({ seconds, rounds, smoke, quick }) {
    const loaded = benchModel(smoke ? 'mlp' : 'resnet50')
    const chain = smoke ? loaded : matmulChain(500)
    const checked = { ...chain, path: await ortForm(chain.path) }
    const input = { loaded, checked, quietSeconds: smoke ? 0.2 : seconds, loads: smoke ? 1 : 5 }
    const sides = new Map<string, Side>([[itself, { served: null, callers: 1, pauseMs: 0 }]])
    for (const [name, served] of Object.entries(models(smoke))) {
      sides.set(`${name}, 1 caller with pauses`, { served, callers: 1, pauseMs: 2 })
      sides.set(`${name}, 8 callers`, { served, callers: 8, pauseMs: 0 })
    }
    const measure = (side: Side) => () =>
      run<BesideLoadResult>('programs/beside-load.ts', { ...input, ...side } satisfies BesideLoadInput)
    const found = await takeTurns(
      smoke || quick ? 1 : rounds,
      Object.fromEntries([...sides].map(([name, side]) => [name, measure(side)])),
    )

    const middle = (of: readonly Requests[], figure: keyof Requests) =>
      round(median(of.map((each) => each[figure])))
    const rows = Object.entries(found).flatMap(([asked, results]) =>
      Object.keys(results[0]!.times).map((time) => {
        const own = results.map(({ times }) => times[time]!)
        const p99Ms = middle(own, 'p99Ms')
        return {
          asked,
          meanwhile: time,
          ms: middle(own, 'tookMs'),
          requests: middle(own, 'requests'),
          'p50 ms': middle(own, 'p50Ms'),
          'p99 ms': p99Ms,
          'max ms': round(Math.max(...own.map(({ maxMs }) => maxMs))),
          'p99 to quiet': round(
            median(results.map(({ times }) => times[time]!.p99Ms / times['quiet']!.p99Ms)),
          ),
        }
      }),
    )
    const ratio = (asked: string, time: string) =>
      rows.find((row) => row.asked === asked && row.meanwhile === time)!['p99 to quiet']
    const others = [...sides.keys()].filter((name) => name !== itself)
    const longer = found[itself]!.map(({ times, largestMs }) => {
      const ms = times['a check of rows']!.maxMs - times['quiet']!.p50Ms
      return { runs: ms / times['quiet']!.p50Ms, largest: ms / largestMs }
    })
    const worst = Math.max(...others.map((asked) => ratio(asked, 'a first load')))
    const worstPlain = Math.max(...others.map((asked) => ratio(asked, 'a process that opens')))
    return {
      ours: worst,
      plain: worstPlain,
      unit: 'times the quiet p99, of requests beside a first load, beside a plain process that opens the model',
      ratio: round(worst / worstPlain),
      targets: [
        ...others.flatMap((asked) =>
          ['a first load', 'a check of rows'].map((time) =>
            atMost(1.5, `p99 of ${asked}: beside ${time}, to quiet`, ratio(asked, time)),
          ),
        ),
        atMost(
          1,
          'the longest further wait of the model itself while its rows are checked, to the longest run of the check',
          round(median(longer.map(({ largest }) => largest))),
        ),
      ],
      rows,
      settings: { ...input, 'further wait in runs of one row': longer.map(({ runs }) => round(runs, 1)) },
      details: found,
    }
  },
}

function models(smoke: boolean): Readonly<Record<string, BenchModel>> {
  const squeezeNet = {
    path: sharedPath('models/squeezenet/model.onnx'),
    input: 'data_0',
    rowDims: [3, 224, 224],
  }
  return { MLP: benchModel('mlp'), ...(hasShared && !smoke && { SqueezeNet: squeezeNet }) }
}
