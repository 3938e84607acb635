import { run } from '../child.ts'
import { positionMlp } from '../models.ts'
import type { TokenBudgetInput, TokenBudgetResult } from '../programs/token-budget.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast, atMost } from '../targets.ts'
import type { Trial } from '../trial.ts'

const lengths = { median: 37, p90: 400, longest: 512 }
const rowsAtMost = 32
const budget = 4096
const callers = 256
/** Of what rows in the order of arrival can serve. */
const partialLoad = 0.6
const largestOfBudget = Math.max(budget, lengths.longest)

type Name = 'rows' | 'cost'

/** Batches of up to so many rows in the order of arrival, or of neighbouring lengths within a budget. */
const sides: Record<Name, Pick<TokenBudgetInput, 'maxBatchSize' | 'dynamicBatching'>> = {
  rows: { maxBatchSize: rowsAtMost, dynamicBatching: {} },
  cost: {
    maxBatchSize: 4 * rowsAtMost,
    dynamicBatching: { cost: { input: 'input', dim: 1 }, maxBatchCost: budget },
  },
}

/** Texts of very different lengths: batches by what they cost, instead of rows in the order of arrival. */
export const tokenBudget: Trial = {
  describe: `MLP at every position of rows whose length has median ${lengths.median} and p90 ${lengths.p90}: batches of at most ${budget} positions of neighbouring length, against ${rowsAtMost} rows in the order of arrival`,
  seconds: 4,
  async run({ seconds, rounds, smoke }) {
    const model = positionMlp()
    const measure = (side: Name, load: TokenBudgetInput['load']) =>
      run<TokenBudgetResult>('programs/token-budget.ts', {
        ...sides[side],
        model,
        lengths,
        load,
        warmupSeconds: smoke ? 0.3 : 1,
        seconds,
      } satisfies TokenBudgetInput)
    const of = (load: TokenBudgetInput['load']) =>
      takeTurns(rounds, { rows: () => measure('rows', load), cost: () => measure('cost', load) })
    const full = await of({ callers })
    const perSecond = partialLoad * median(full.rows.map(({ requestsPerSecond }) => requestsPerSecond))
    const partial = await of({ perSecond })

    const middle = (results: readonly TokenBudgetResult[], key: keyof TokenBudgetResult) =>
      median(results.map((result) => result[key]))
    const row = (what: string, load: string, results: readonly TokenBudgetResult[]) => ({
      what, load,
      'tokens/s': round(middle(results, 'tokensPerSecond'), 0),
      'p50 ms': round(middle(results, 'p50Ms')),
      'p99 ms': round(middle(results, 'p99Ms')),
      'rows per run': round(middle(results, 'meanBatchRows')),
      'padding waste': round(middle(results, 'waste'), 3),
      'largest batch': Math.max(...results.map(({ largestBatch }) => largestBatch)),
      'arena MiB': round(Math.max(...results.map(({ arenaBytes }) => arenaBytes)) / 2 ** 20, 1),
    }) // prettier-ignore
    const names = { rows: `${rowsAtMost} rows`, cost: `${budget} positions` }
    const [atFull, atPartial] = [`${callers} callers`, `${round(perSecond, 0)}/s`]
    const rows = [
      row(names.rows, atFull, full.rows),
      row(names.cost, atFull, full.cost),
      row(names.rows, atPartial, partial.rows),
      row(names.cost, atPartial, partial.cost),
    ]
    // By the round, as the machine meets both sides of one alike.
    const ratio = round(
      median(full.cost.map(({ tokensPerSecond }, at) => tokensPerSecond / full.rows[at]!.tokensPerSecond)),
    )
    const p99 = round(median(partial.cost.map(({ p99Ms }, at) => p99Ms / partial.rows[at]!.p99Ms)))
    const [plain, ours] = [rows[0]!['tokens/s'], rows[1]!['tokens/s']]
    return {
      ours,
      plain,
      unit: `positions/s of ${callers} callers`,
      ratio,
      targets: [
        atLeast(1.5, 'positions/s, by cost to by rows', ratio),
        atMost(
          0.1,
          'of what is run, padding',
          Math.max(rows[1]!['padding waste'], rows[3]!['padding waste']),
        ),
        atMost(
          largestOfBudget,
          'positions of the largest batch',
          Math.max(rows[1]!['largest batch'], rows[3]!['largest batch']),
        ),
        atMost(1, `p99 at ${100 * partialLoad} % of the load, by cost to by rows`, p99),
      ],
      rows,
      numbers: [{
        question: 'lengths of median 37 and p90 400, tokens a second: rows in the order of arrival, or by cost',
        plain: `${shown(plain)} /s`, zerohop: `${shown(ours)} /s`, note: `${ratio} x`,
      }], // prettier-ignore
      settings: { lengths, rows: rowsAtMost, budget, callers, partialLoad },
      details: { full, partial },
    }
  },
}
