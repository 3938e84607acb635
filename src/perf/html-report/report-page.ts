import { createHash } from 'node:crypto'
import { Html, html, jsonText } from './html.ts'
import type { HeadlineFigure } from './headline.ts'
import { pageScript, plottingLibrary } from './page-script.ts'
import { pageStyle } from './page-style.ts'
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
  const library = plottingLibrary()
  const body = sections.map(renderSection)
  const drawn = (id: string) => body.some(({ text }) => text.includes(`id="${id}-plot"`))
  const charts = sections.flatMap(({ parts }) => parts.flatMap(({ chart }) => (chart !== undefined && drawn(chart.id) ? [chart] : [])))
  const scripts = [library.script, pageScript()]
  const styles = [library.style, pageStyle]
  // Whatever a model is called: nothing runs but these two, and nothing is asked of anybody.
  const policy = `default-src 'none'; script-src ${scripts.map(hashOf).join(' ')}; style-src ${styles.map(hashOf).join(' ')}; base-uri 'none'; form-action 'none'`
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
${styles.map((style) => html`<style>${new Html(style)}</style>`)}
</head>
<body>
<header>
<h1>${title}</h1>
<p class="about">${about}</p>
${notices.map((notice) => html`<p class="notice" role="note">${notice}</p>`)}
<dl class="headline">${headline.map(({ label, figure, unit, detail }) => html`<div><dt>${label}</dt><dd class="figure">${figure}${unit === undefined ? null : html` <span>${unit}</span>`}</dd><dd class="detail">${detail}</dd></div>`)}</dl>
<nav aria-label="Sections"><ul>${sections.map((section) => html`<li><a href="#${section.id}">${section.title}</a></li>`)}</ul></nav>
</header>
<main>
${body}</main>
<footer><p>Made by zerohop perf. Arrow keys go through the points of a chart.</p></footer>
<script type="application/json" id="charts">${jsonText(charts)}</script>
${scripts.map((script) => html`<script>${new Html(script)}</script>
`)}</body>
</html>
`.text
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}
