import { buildText, dayOf, machineText, markdownTable, type KeptResult } from './kept-result.ts'

/** bench/results.md: the tables of all results that are kept. */
export function resultsDocument(results: readonly KeptResult[]): string {
  const contents = results.map(
    ({ trial, describe }) => `- [${trial}](#${trial})${describe === undefined ? '' : `: ${describe}`}`,
  )
  return [
    '# Results of the benchmarks',
    'Made by `npm run bench:numbers` of what `npm run bench -- TRIAL --results` has written to `bench/results/`: change nothing here by hand. Figures are medians over the rounds.',
    contents.join('\n'),
    ...results.map(section),
  ]
    .join('\n\n')
    .concat('\n')
}

function section(result: KeptResult): string {
  const { trial, describe, reading, rows, tables = [{ title: '', rows }], targets, settings } = result
  return [
    `## ${trial}`,
    ...(describe === undefined ? [] : [`${describe}.`]),
    `${dayOf(result)}${buildText(result)}, ${machineText(result.machine)}.${shortenedText(result)}`,
    ...tables
      .filter((table) => table.rows.length > 0)
      .flatMap(({ title, rows: shownRows }) => [
        ...(title === '' ? [] : [`### ${title}`]),
        tableOf(shownRows),
      ]),
    ...outcome(result),
    ...(reading === undefined ? [] : [reading]),
    ...(targets.length === 0
      ? []
      : [
          markdownTable(
            ['asked', 'found', 'target', ''],
            targets.map(({ what, found, target, met }) => [
              what,
              textOf(found),
              target,
              met ? 'met' : '**not met**',
            ]),
          ),
        ]),
    `<details><summary>Settings</summary>\n\n\`\`\`json\n${JSON.stringify(settings, null, 1)}\n\`\`\`\n\n</details>`,
  ].join('\n\n')
}

function shortenedText({ quick, shortened }: KeptResult): string {
  const how = [
    ...(quick === true ? ['`--quick`'] : []),
    ...(shortened ? [`\`--seconds ${shortened.seconds} --rounds ${shortened.rounds}\``] : []),
  ]
  return how.length === 0 ? '' : ` A shortened run (${how.join(', ')}).`
}

function outcome({ ours, plain, unit, ratio }: KeptResult): string[] {
  if (ours === undefined || plain === undefined || unit === undefined || ratio === undefined) return []
  const figure = (value: number) =>
    String(Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(6)))
  return [`In one line: ${figure(ours)} beside ${figure(plain)} ${unit}; ratio ${figure(ratio)}.`]
}

function tableOf(rows: KeptResult['rows']): string {
  const columns = [...new Set(rows.flatMap(Object.keys))]
  return markdownTable(
    columns,
    rows.map((row) => columns.map((column) => textOf(row[column]))),
  )
}

function textOf(value: string | number | null | undefined): string {
  return value === null || value === undefined ? '' : String(value)
}
