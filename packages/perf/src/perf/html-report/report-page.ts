import type { Colour } from '../../web-page/colours.ts'
import type { Chart, Points } from '../../web-page/charts/chart.ts'
import { html, type Html, jsonText } from '../../web-page/html.ts'
import { selfContainedPage } from '../../web-page/self-contained-page.ts'
import type { PerfResult } from '../result-schema.ts'

/** The parts of a page. */
interface ReportPage {
  readonly title: string
  /** What was measured, how and when, in one line. */
  readonly about: string
  /** Important notices. */
  readonly notices: readonly string[]
  readonly headline: readonly HeadlineFigure[]
  readonly sections: readonly Section[]
}

/** A self-contained HTML file: it opens from disk, and makes no network requests. */
export function renderPage({ title, about, notices, headline, sections }: ReportPage): string {
  const shown = sections.map(renderSection)
  const drawn = (id: string) => shown.some(({ text }) => text.includes(`id="${id}-plot"`))
  const charts = sections.flatMap(({ parts }) =>
    parts.flatMap(({ chart }) => (chart !== undefined && drawn(chart.id) ? [chart] : [])),
  )
  const body = html`<header>
      <h1>${title}</h1>
      <p class="about">${about}</p>
      ${notices.map((notice) => html`<p class="notice" role="note">${notice}</p>`)}
      <dl class="headline">
        ${headline.map(
          ({ label, figure, unit, detail }) =>
            html`<div>
              <dt>${label}</dt>
              <dd class="figure">${figure}${unit === undefined ? null : html` <span>${unit}</span>`}</dd>
              <dd class="detail">${detail}</dd>
            </div>`,
        )}
      </dl>
      <nav aria-label="Sections">
        <ul>
          ${sections.map((section) => html`<li><a href="#${section.id}">${section.title}</a></li>`)}
        </ul>
      </nav>
    </header>
    <main>${shown}</main>
    <footer><p>Made by zerohop perf. Arrow keys go through the points of a chart.</p></footer>
    <script type="application/json" id="charts">
      ${jsonText(charts)}
    </script>`
  return selfContainedPage({ title, body, entry: 'perf/html-report/page/draw-charts' }).text
}

/** A section as HTML. */
function renderSection({ id, title, lead, parts, choices = [], chosen = 0 }: Section): Html {
  const picker =
    choices.length < 2
      ? null
      : html` <p class="picker">
          <label for="level">Level</label>
          <select id="level" autocomplete="off">
            ${choices.map((choice, index) => html`<option${index === chosen ? html` selected` : null}>${choice}</option>`)}
          </select>
        </p>`
  return html`<section id="${id}" aria-labelledby="${id}-title">
    <h2 id="${id}-title">${title}</h2>
    <p class="lead">${lead}</p>
    ${picker}
    <div class="parts${parts.length > 1 ? ' pair' : ''}">
      ${parts.map((part) => renderPart(title, part, chosen))}
    </div>
  </section> `
}

function renderPart(sectionTitle: string, { title, chart, table }: Part, chosen: number): Html {
  const id = chart === undefined ? null : `${chart.id}-table`
  const shown = renderTable(table, id)
  return html` <div>
    ${title === undefined ? null : html`<h3>${title}</h3>`}${chart === undefined ? null : renderChart(title ?? sectionTitle, chart, chosen)}
    ${
      table.isOpen === true
        ? shown
        : html`<details>
            <summary>${table.caption}</summary>
            ${shown}
          </details>`
    }
  </div>`
}

function renderChart(title: string, chart: Chart, chosen: number): Html {
  const points: readonly Points[] = chart.shape === 'curve' ? chart.curves : chart.views
  const hasPoints = points.some(
    ({ names, series }) =>
      names.length > 0 && series.some(({ values }) => values.some((value) => value !== null)),
  )
  if (!hasPoints) return html`<p class="empty">Nothing was measured.</p>`
  const scale = chart.y.isLogarithmic ? ' (logarithmic)' : ''
  const legend =
    chart.shape === 'curve' ? points.flatMap(({ series }) => series) : (points[chosen]?.series ?? [])
  const sign = chart.shape === 'bars' ? html`<b>*</b>` : html`<i class="swatch hollow"></i>`
  const unstable = points.some(({ unstable }) => unstable.length > 0)
    ? html`<li>${sign} unstable level</li>`
    : null
  const entries = legend.map(
    ({ name, colour, isDashed }) =>
      html`<li>
        <i class="swatch" data-colour="${colour}" ${isDashed === true ? html` data-dashed` : null}></i>${name}
      </li>`,
  )
  return html`${
    legend.length < 2 && unstable === null
      ? null
      : html`<ul class="legend ${chart.shape}" aria-label="Legend">
            ${entries}${unstable}
          </ul>`
  }
    <p class="axis">${chart.y.label}${scale}</p>
    <div
      class="plot"
      id="${chart.id}-plot"
      role="img"
      tabindex="0"
      aria-label="Chart: ${title}, ${chart.y.label}${scale} over ${chart.x.label}. Its figures are in the table below."
    ></div>`
}

function renderTable({ caption, columns, rows }: Table, id: string | null): Html {
  const areFacts = columns.length === 2 && columns[1] === 'Value'
  // HTML allows rows and cells without end tags, which would be half of a long table's size.
  const rowsShown = rows.map(
    ([first, ...cells]) =>
      html`<tr>
        <th scope="row">${renderCell(first ?? '')}${cells.map((cell) => html`<td>${renderCell(cell)}`)}
       `,
  )
  return html`<div class="table${areFacts ? ' facts' : ''}" role="region" aria-label="${caption}" tabindex="0"><table${id === null ? null : html` id="${id}"`}>
<caption>${caption}</caption>
<thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead>
<tbody>${rowsShown}</tbody></table></div>`
}

function renderCell(cell: Cell): Html | string {
  return typeof cell === 'string' ? cell : html`${cell.text} <span class="badge">${cell.warning}</span>`
}

/** A part of the page with its own heading. */
export interface Section {
  readonly id: string
  readonly title: string
  /** What it shows and how to read it, in a sentence or two. */
  readonly lead: string
  readonly parts: readonly Part[]
  /** Its charts show one level at a time, chosen at the top. */
  readonly choices?: readonly string[]
  /** The initial choice. */
  readonly chosen?: number
}

/** A chart with its figures as text, or only the figures. */
export interface Part {
  /** Above the chart; omitted if the section's heading suffices. */
  readonly title?: string
  readonly chart?: Chart
  readonly table: Table
}

/** Columns of text. The first names the row. */
export interface Table {
  readonly caption: string
  readonly columns: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
  /** Whether it is open at first. */
  readonly isOpen?: boolean
}

/** A table without a chart, which is open at first. */
export function tablePart(caption: string, columns: Table['columns'], rows: Table['rows']): Part {
  return { table: { caption, columns, rows, isOpen: true } }
}

export type Cell = string | { readonly text: string; readonly warning: string }

/** One figure of the headline. */
export interface HeadlineFigure {
  readonly label: string
  readonly figure: string
  readonly unit?: string
  readonly detail: string
}

/** A result and its name in a comparison. */
export interface NamedResult {
  readonly name: string
  readonly result: PerfResult
}

const colours: readonly Colour[] = ['first', 'second', 'third', 'fourth', 'fifth', 'seventh']

/** Most results that can be distinguished in one chart. */
export const mostCompared = colours.length

/** The colour of the result with this index, in every chart. */
export function comparedColour(index: number): Colour {
  return colours[index]!
}
