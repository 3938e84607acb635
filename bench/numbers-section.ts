import { dayOf, isShortened, machineText, markdownTable, type KeptResult } from './kept-result.ts'

const begin = '<!-- Made by npm run bench:numbers of bench/results/: change nothing here by hand. -->'
const end = '<!-- The end of what is made by npm run bench:numbers. -->'

/** Trials in the order of the table; those not named come after, by name. */
const order = [
  'throughput',
  'batchers',
  'cost',
  'peers',
  'latency',
  'saturation',
  'event-loop',
  'centralised',
  'jobs',
  'warm-load',
  'sessions',
  'soak',
  'two-soaks',
]

/** The six rows of README: trial and the beginning of the question, the hard baselines first. */
const headlines: readonly (readonly [trial: string, question: string])[] = [
  ['batchers', 'MLP beside a batcher'],
  ['batchers', 'ResNet-50 beside a batcher'],
  ['peers', 'MLP in process, 1, 8, 64, 256 callers, beside Triton'],
  ['latency', 'identity, one caller'],
  ['event-loop', 'p99 delay of the event loop'],
  ['warm-load', 'ResNet-152 in a new process'],
]

/**
 * The page of benchmarks with a row for each number of the results; unchanged where there are none.
 *
 * @throws Error where the page has no place for them.
 */
export function withNumbers(page: string, results: readonly KeptResult[]): string {
  return withTable('docs/reference/benchmarks.md', page, results, tableRows)
}

/**
 * README with the six headline rows of the results; unchanged where there are none.
 *
 * @throws Error where README has no place for them.
 */
export function withHeadlines(readme: string, results: readonly KeptResult[]): string {
  return withTable('README.md', readme, results, (told) => {
    const rows = tableRows(told)
    return headlines.flatMap(([trial, question]) =>
      rows.filter((row) => row.trial === trial && row.cells[0]!.startsWith(question)),
    )
  })
}

interface Row {
  readonly trial: string
  readonly cells: string[]
}

function withTable(
  name: string,
  text: string,
  results: readonly KeptResult[],
  rowsOf: (results: readonly KeptResult[]) => readonly Row[],
): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from === -1 || to < from)
    throw new Error(`${name}: expected a place for the numbers, between the lines '${begin}' and '${end}'`)
  const told = results
    .filter(({ numbers = [] }) => numbers.length > 0)
    .sort((a, b) => placeOf(a) - placeOf(b))
  const rows = rowsOf(told)
  if (rows.length === 0) return text
  const cells = rows.map((row) => row.cells)
  const shown = told.filter(({ trial }) => rows.some((row) => row.trial === trial))
  const table = markdownTable(['question', 'plain', 'zerohop', '', 'trial'], cells)
  return `${text.slice(0, from)}${begin}\n\n${whereText(shown)}\n\n${table}\n\n${text.slice(to)}`
}

function placeOf({ trial }: KeptResult): number {
  const place = order.indexOf(trial)
  return place === -1 ? order.length : place
}

function tableRows(results: readonly KeptResult[]): Row[] {
  return results.flatMap((result) =>
    result.numbers!.map(({ question, plain, zerohop, note }) => ({
      trial: result.trial,
      cells: [
        question,
        plain,
        zerohop,
        note,
        `\`${result.trial}\`${isShortened(result) ? ', shortened' : ''}`,
      ],
    })),
  )
}

function whereText(results: readonly KeptResult[]): string {
  const machines = [...new Set(results.map(({ machine }) => machineText(machine)))]
  const days = results.map(dayOf).sort()
  const when = days[0] === days.at(-1) ? days[0] : `${days[0]} to ${days.at(-1)}`
  const where = machines.length === 1 ? machines[0] : 'the machines that `bench/results.md` names'
  return `On ${where}, ${when}; plain is onnxruntime-node's \`session.run\` in the same run, unless a row says otherwise.`
}
