import { html, type Html } from '../../web-page/html.ts'
import type { Chart, Points } from '../../web-page/charts/chart.ts'
import type { Cell, Part, Section, Table } from './section.ts'

/** A section as it stands on the page. */
export function renderSection({ id, title, lead, parts, choices = [], chosen = 0 }: Section): Html {
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
  // End tags of rows and cells may be left out, and are: they would be half of a long table.
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
