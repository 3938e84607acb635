import type { ModelOptions } from 'zerohop'
import { run } from '../child.ts'
import { benchModel } from '../models.ts'
import type { KeptMemoryInput, KeptMemoryResult } from '../programs/kept-memory.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const sides = {
  default: undefined,
  "shrink: 'run'": { shrink: 'run' },
  "shrink: 'idle'": { shrink: 'idle' },
} as const satisfies Record<string, ModelOptions['memory']>

/** What a model keeps of a large batch, and what it costs to have that given back. */
export const keptMemory: Trial = {
  describe:
    'ResNet-50 after batches of 32 rows: memory that is kept, and what a run takes, by the option memory.shrink',
  async run({ rounds, smoke }) {
    const model = benchModel(smoke ? 'mlp' : 'resnet50')
    const rows = 32
    const runs = smoke ? 1 : 5
    const measure = (memory: ModelOptions['memory']) => () =>
      run<KeptMemoryResult>(
        'programs/kept-memory.ts',
        { model, memory, rows, runs } satisfies KeptMemoryInput,
        ['--expose-gc'],
      )
    const names = Object.keys(sides) as (keyof typeof sides)[]
    const found = await takeTurns(
      rounds,
      Object.fromEntries(names.map((name) => [name, measure(sides[name])])) as Record<
        keyof typeof sides,
        () => Promise<KeptMemoryResult>
      >,
    )
    const table = names.map((name) => ({
      memory: name,
      'kept MB': round(median(found[name].map(({ keptBytes }) => keptBytes)) / 2 ** 20, 1),
      'ms a run of 32 rows': round(median(found[name].map(({ runMs }) => runMs)), 0),
    }))
    const [kept, given] = [table[0]!, table[1]!]
    const cost = round(given['ms a run of 32 rows'] / kept['ms a run of 32 rows'])
    return {
      ours: given['kept MB'],
      plain: kept['kept MB'],
      unit: 'MB kept after a batch of 32 rows',
      ratio: round(given['kept MB'] / kept['kept MB']),
      targets: [
        atMost(16, "MB kept with shrink: 'run'", given['kept MB']),
        atMost(1.05, 'a run with it, to one without', cost),
      ],
      rows: table,
      numbers: [{
        question: "memory that ResNet-50 keeps of a batch of 32 rows: as it is, and with `memory: { shrink: 'run' }`",
        plain: `${shown(kept['kept MB'])} MB`, zerohop: `${shown(given['kept MB'])} MB`, note: `a run takes ${cost} x`,
      }], // prettier-ignore
      settings: { rows, runs },
      details: found,
    }
  },
}
