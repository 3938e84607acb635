import { html, type Html } from '../web-page/html.ts'
import { selfContainedPage, type SelfContainedPage } from '../web-page/self-contained-page.ts'
import { modelCharts, processCharts, type LiveChart } from './page/live-charts.ts'

const figures: readonly [id: string, label: string, unit: string][] = [
  ['answered', 'Requests answered', '/s'],
  ['p99', 'p99 latency', ''],
  ['rows', 'Mean batch', 'rows'],
  ['waiting', 'Requests waiting', ''],
  ['failed', 'Requests failed', '/s'],
  ['uptime', 'Up', ''],
]

const style = `
.status::before{content:"";display:inline-block;width:9px;height:9px;border-radius:50%;margin-right:7px;background:var(--muted)}
.status[data-state=live]::before{background:var(--third)}
.status[data-state=lost]::before{background:var(--second)}
.status{margin-bottom:14px}
.picker{margin:0 0 18px}
.bar{display:block;height:9px;min-width:2px;border-radius:2px;background:var(--first)}
.tally{overflow-wrap:normal}
.tally td:nth-child(2){width:40%;min-width:60px}
.tally tbody th{white-space:normal;min-width:6em}
.tally small{display:block}
tbody .name{display:inline-block;max-width:20em;overflow:hidden;text-overflow:ellipsis;vertical-align:bottom}
small{color:var(--muted);font-size:12px;font-weight:400}
.badge.quiet{background:none;border:1px solid var(--grid);color:var(--muted)}
.badge{margin-left:0}
.figure b{font-weight:inherit}
.none th{color:var(--muted);font-weight:400}
.plot{min-height:0}
.parts h3{margin-top:14px}
@media (max-width:760px){tbody .name{max-width:11em}}`

/** The page of an engine; the frames fill it. `zerohop` serves it. */
export function inspectorPage(title: string): SelfContainedPage {
  const body = html`<header>
      <h1>${title}</h1>
      <p class="about status" id="status" role="status" data-state="lost">Not connected yet</p>
      <noscript><p class="notice">This page is drawn by its script.</p></noscript>
      <p class="picker">
        <label for="model">Figures of</label>
        <select id="model" autocomplete="off">
          <option value="">all models</option>
        </select>
      </p>
      <dl class="headline">
        ${figures.map(
          ([id, label, unit]) =>
            html`<div>
              <dt>${label}</dt>
              <dd class="figure"><b id="${id}-figure">–</b> <span>${unit}</span></dd>
              <dd class="detail" id="${id}-detail">–</dd>
            </div>`,
        )}
      </dl>
    </header>
    <main>
      ${section('load', 'Load', html`${modelCharts.map(chartPlace)}`)}
      ${section(
        'engine',
        'Models',
        html`<div>
          ${table('models', 'Versions that are loaded; rates and times are of the last moment, counts since it was loaded', ['model', 'instances', 'waiting', 'running', 'requests/s', 'batch', 'p50', 'p99', 'answered', 'failed'])}
          <p class="lead" id="left-out"></p>
        </div>`,
        false,
      )}
      ${section(
        'batching',
        'Batches',
        html` <div>
            ${table('sizes', `Rows in a batch, ${span}`, ['rows', '', 'batches', 'share'], 'tally')}
          </div>
          <div>
            ${table('reasons', `Why batches were closed, ${span}`, ['reason', '', 'batches', 'share'], 'tally')}
          </div>
          <div>
            ${table('batches', 'Batches that run, and the last that ended', ['batch', 'rows', 'requests', 'closed as', 'instance', 'outcome', 'run', 'whole'])}
          </div>`,
      )}
      ${section('failing', 'Failures', html`<div>${table('failures', `Requests by why they failed, ${span}`, ['reason', '', 'requests', 'share'], 'tally')}</div>`, false)}
      ${section(
        'process',
        'Process',
        html`${processCharts.map(chartPlace)}
          <div>${table('workers', 'Workers', ['worker', 'instances', 'busy', 'restarts'])}</div>
          <div>${table('instances', 'Instances', ['instance', 'worker', 'runs', 'busy'])}</div>
          <div>
            ${table('staging', 'Staging memory', ['pool', 'kind', 'in use', 'most', 'reserved', 'limit', 'fallbacks'])}
          </div>`,
      )}
    </main>
    <footer><p>Made by zerohop. Arrow keys go through the moments of a chart.</p></footer>`
  return selfContainedPage({
    title,
    body,
    entry: 'inspector-page/page/live-page',
    style,
    asksItsServer: true,
  })
}

const span = 'in the time that charts show'

function section(id: string, title: string, parts: Html, isPair = true): Html {
  return html`<section aria-labelledby="${id}-title">
    <h2 id="${id}-title">${title}</h2>
    <div class="parts${isPair ? ' pair' : ''}">${parts}</div>
  </section>`
}

function chartPlace({ id, title, label, shape, series }: LiveChart): Html {
  return html` <div>
    <h3>${title}</h3>
    <ul class="legend${shape === 'areas' ? ' bars' : ''}" aria-label="Legend">
      ${series.map(({ name, colour }) => html`<li><i class="swatch" data-colour="${colour}"></i>${name}</li>`)}
    </ul>
    <p class="axis">${label}</p>
    <div
      class="plot"
      id="${id}-plot"
      role="img"
      tabindex="0"
      aria-label="Chart: ${title}, ${label}, over the last minutes."
    ></div>
  </div>`
}

function table(id: string, caption: string, columns: readonly string[], kind = ''): Html {
  return html`<div class="table" role="region" aria-label="${caption}" tabindex="0">
    <table id="${id}" class="${kind}">
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map((column) => html`<th scope="col">${column}</th>`)}
        </tr>
      </thead>
      <tbody></tbody>
    </table>
  </div>`
}
