import type { ModelOptions } from 'zerohop'
import { hasShared, sharedPath } from '../../test/support/shared.ts'
import { run } from '../child.ts'
import { benchModel, type BenchModel } from '../models.ts'
import type { FirstLoadInput, FirstLoadResult } from '../programs/first-load.ts'
import { takeTurns } from '../rounds.ts'
import { shownRange } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const rows = 8
const sides = {
  'opened only': { checkRows: false, maxBatchSize: rows },
  'rows checked': { maxBatchSize: rows },
  'checked and warmed': { maxBatchSize: rows, warmup: { batchSizes: [rows] } },
} as const satisfies Record<string, ModelOptions>
type Side = keyof typeof sides

/** What a load does beside opening the model, and what it saves. */
export const firstLoad: Trial = {
  describe:
    'what a load takes that only opens, that also finds out whether rows are independent, and that warms as well; the first batch of 8 after it',
  async run({ rounds, smoke }) {
    const models: Record<string, BenchModel> = { MLP: benchModel('mlp') }
    if (hasShared && !smoke)
      models['SqueezeNet'] = {
        path: sharedPath('models/squeezenet/model.onnx'),
        input: 'data_0',
        rowDims: [3, 224, 224],
      }
    if (!smoke) models['ResNet-50'] = benchModel('resnet50')
    const table: {
      model: string
      load: Side
      'load ms': number
      'first batch ms': number
      'later batch ms': number
      'first to later': number
    }[] = []
    const details = []
    for (const [name, model] of Object.entries(models)) {
      const measure = (options: ModelOptions) => () =>
        run<FirstLoadResult>('programs/first-load.ts', { model, options, rows } satisfies FirstLoadInput)
      const found = await takeTurns(
        rounds,
        Object.fromEntries(
          Object.entries(sides).map(([side, options]) => [side, measure(options)]),
        ) as Record<Side, () => Promise<FirstLoadResult>>,
      )
      const of = (side: Side, figure: keyof FirstLoadResult) =>
        round(median(found[side].map((result) => result[figure])), 1)
      for (const side of Object.keys(sides) as Side[]) {
        const [firstMs, laterMs] = [of(side, 'firstMs'), of(side, 'laterMs')]
        table.push({
          model: name,
          load: side,
          'load ms': of(side, 'loadMs'),
          'first batch ms': firstMs,
          'later batch ms': laterMs,
          'first to later': round(firstMs / laterMs),
        })
      }
      details.push({ name, found })
    }
    const of = (side: Side) => table.filter(({ load }) => load === side)
    // Where it takes less than two loads differ by, nothing is seen of it.
    const checkMs = of('rows checked').map((row, index) =>
      Math.max(0, round(row['load ms'] - of('opened only')[index]!['load ms'], 0)),
    )
    const slower = of('checked and warmed').at(-1)!['first to later']
    return {
      ours: of('rows checked').at(-1)!['load ms'],
      plain: of('opened only').at(-1)!['load ms'],
      unit: `ms of a load of ${Object.keys(models).at(-1)}`,
      ratio: round(of('rows checked').at(-1)!['load ms'] / of('opened only').at(-1)!['load ms']),
      targets: [
        atMost(1.5, `${Object.keys(models).at(-1)}: the first batch after warming up, to later ones`, slower),
      ],
      rows: table,
      numbers: [{
        question: `finding out whether rows of a model are independent, with its first load (${Object.keys(models).join(', ')})`,
        plain: '', zerohop: shownRange(checkMs, 'ms'), note: '',
      }], // prettier-ignore
      settings: { rows },
      details,
    }
  },
}
