import { dayOf, isShortened, machineText, markdownTable, type KeptResult } from './kept-result.ts'

const begin = '<!-- Made by npm run bench:numbers of bench/results/: change nothing here by hand. -->'
const end = '<!-- The end of what is made by npm run bench:numbers. -->'

/** README's order of questions; what is not named comes after, by its name. */
const order = [
  'throughput',
  'batchers',
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

/**
 * README with its numbers as the results give them; as it is where there are none.
 *
 * @throws Error where README has no place for them.
 */
export function withNumbers(readme: string, results: readonly KeptResult[]): string {
  const [from, to] = [readme.indexOf(begin), readme.indexOf(end)]
  if (from === -1 || to < from)
    throw new Error(`README.md: expected a place for the numbers, between the lines '${begin}' and '${end}'`)
  const told = results
    .filter(({ numbers = [] }) => numbers.length > 0)
    .sort((a, b) => placeOf(a) - placeOf(b))
  if (told.length === 0) return readme
  return `${readme.slice(0, from)}${begin}\n\n${numbersText(told)}\n\n${readme.slice(to)}`
}

function placeOf({ trial }: KeptResult): number {
  const place = order.indexOf(trial)
  return place === -1 ? order.length : place
}

function numbersText(results: readonly KeptResult[]): string {
  const machines = [...new Set(results.map(({ machine }) => machineText(machine)))]
  const days = results.map(dayOf).sort()
  const when = days[0] === days.at(-1) ? days[0] : `${days[0]} to ${days.at(-1)}`
  const where = machines.length === 1 ? machines[0] : 'the machines that `bench/results.md` names'
  const rows = results.flatMap((result) =>
    result.numbers!.map(({ question, plain, zerohop, note }) => [
      question,
      plain,
      zerohop,
      note,
      `\`${result.trial}\`${isShortened(result) ? ', shortened' : ''}`,
    ]),
  )
  return `On ${where}, ${when}; plain is onnxruntime-node's \`session.run\` in the same run, unless a row says otherwise. Each row is of a trial
(\`npm run bench -- <trial>\`; of peers \`npm run bench:peers\`), whose tables are in \`bench/results.md\`. Speeds of machines change from hour to hour: read the ratios, which are taken within a round; of several rounds it is the median, and where the figures beside it
are medians of their own it need not be their quotient.

${markdownTable(['question', 'plain', 'zerohop', '', 'trial'], rows)}`
}
