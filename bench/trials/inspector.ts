import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { InspectorInput, InspectorResult } from '../programs/inspector.ts'
import { takeTurns } from '../rounds.ts'
import { median, round } from '../statistics.ts'
import type { Trial } from '../trial.ts'

const callers = 64
const intervalMs = { asItComes: 1000, often: 100 } as const

/** What it costs an engine that somebody looks at its page. */
export const inspectorTrial: Trial = {
  describe:
    'what an open inspector page costs: CPU time of an update with 1 and with 20 models, and of a request to the MLP meanwhile',
  seconds: 5,
  async run({ seconds, rounds }) {
    const model = benchModel('mlp')
    const turns = (load: Pick<InspectorInput, 'models' | 'callers' | 'intervalMs'>) => {
      const measure = (isOpen: boolean) => () =>
        run<InspectorResult>('programs/inspector.ts', {
          ...load,
          model,
          isOpen,
          seconds,
        } satisfies InspectorInput)
      return takeTurns(rounds, { closed: measure(false), open: measure(true) })
    }
    const busy = await turns({ models: 1, callers, intervalMs: intervalMs.asItComes })
    const idle = {
      1: await turns({ models: 1, callers: 0, intervalMs: intervalMs.often }),
      20: await turns({ models: 20, callers: 0, intervalMs: intervalMs.often }),
    }

    const perRequestUs = (results: readonly InspectorResult[]) =>
      results.map(({ cpuMs, requests }) => (1000 * cpuMs) / requests)
    const [ours, plain] = [perRequestUs(busy.open), perRequestUs(busy.closed)]
    const ratio = round(median(ours.map((us, index) => us / plain[index]!)), 3)
    const frames = (seconds * 1000) / intervalMs.often
    const telling = Object.entries(idle).map(([models, { open, closed }]) => {
      const ms = median(open.map(({ cpuMs }, index) => (cpuMs - closed[index]!.cpuMs) / frames))
      const statsMs = median(closed.map(({ statsCpuMs }) => statsCpuMs))
      return {
        what: `an update of a page with ${models} models, and engine.stats(): ms`,
        open: round(ms, 3),
        closed: round(statsMs, 3),
        ratio: round(ms / statsMs),
      }
    })
    return {
      ours: round(median(ours), 3),
      plain: round(median(plain), 3),
      unit: 'us of CPU time a request with an open page, and with none',
      ratio,
      targets: [],
      rows: [
        { what: 'a request: us', open: round(median(ours), 3), closed: round(median(plain), 3), ratio },
        ...telling,
      ],
      settings: { callers, seconds, intervalMs },
      details: { busy, idle },
    }
  },
}
