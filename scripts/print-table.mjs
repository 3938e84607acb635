/** Prints rows of the same columns, one below the other. */
export function printTable(rows) {
  const columns = Object.keys(rows[0])
  const widths = columns.map((column) =>
    Math.max(column.length, ...rows.map((row) => String(row[column]).length)),
  )
  const line = (cells) =>
    cells
      .map((cell, index) => String(cell).padEnd(widths[index]))
      .join('  ')
      .trimEnd()
  console.log(`\n${line(columns)}\n${line(widths.map((width) => '─'.repeat(width)))}`)
  for (const row of rows) console.log(line(columns.map((column) => row[column])))
}
