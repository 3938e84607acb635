import { html, jsonText } from '../../web-page/html.ts'
import { selfContainedPage } from '../../web-page/self-contained-page.ts'
import type { HeadlineFigure } from './headline.ts'
import { renderSection } from './render-section.ts'
import type { Section } from './section.ts'

/** What a page is made of. */
export interface ReportPage {
  readonly title: string
  /** What, how and when, in a line. */
  readonly about: string
  /** What a reader must not overlook. */
  readonly notices: readonly string[]
  readonly headline: readonly HeadlineFigure[]
  readonly sections: readonly Section[]
}

/** One HTML file that holds all it needs: it opens from a disk, and asks no network for anything. */
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
