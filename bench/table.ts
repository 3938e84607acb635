import Table from 'cli-table3'

/** Rows as text; all have the same columns. */
export function tableOf(rows: readonly Readonly<Record<string, string | number>>[]): string {
  const columns = Object.keys(rows[0]!)
  const colAligns = columns.map(
    (column) => (typeof rows[0]![column] === 'string' ? 'left' : 'right') as 'left' | 'right',
  )
  const table = new Table({ head: columns, style: { head: [], border: [], compact: true }, colAligns })
  for (const row of rows) table.push(columns.map((column) => row[column]!))
  return table.toString()
}
