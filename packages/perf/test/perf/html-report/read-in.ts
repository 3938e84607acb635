/** What is read in a part of a page: its text, with a bar between cells and a line for each row. */
export function readIn(html: string, from: string, to = '</section>'): string {
  const start = html.indexOf(from)
  const part = html.slice(start, html.indexOf(to, start))
  return part
    .replaceAll(/\s*\n\s*(?=<\/?d[dt]\b)/g, '') // between the parts of a figure, where browsers show none
    .replaceAll(/<(?:td|th)[^>]*>/g, '| ')
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/ *\n\s*/g, '\n')
}
