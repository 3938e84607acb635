import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { ownFile, requireFromPackage } from '../own-files.ts'
import { colours } from './colours.ts'
import { Html, html } from './html.ts'

/** The parts of a page. */
interface PageParts {
  readonly title: string
  readonly body: Html
  /** Path of the page's script in `src/`, without `.ts`. scripts/bundle-pages.mjs makes one file of it. */
  readonly entry: string
  /** More style, after that of all pages. */
  readonly style?: string
  /** Whether it may send requests to its own server. Otherwise it sends none. */
  readonly asksItsServer?: boolean
}

/** A page and its content security policy. The page contains the policy as well. */
export interface SelfContainedPage {
  readonly text: string
  readonly policy: string
}

/** A self-contained HTML document with script, style and the plotting library. */
export function selfContainedPage({
  title,
  body,
  entry,
  style = '',
  asksItsServer = false,
}: PageParts): SelfContainedPage {
  const library = plottingLibrary()
  const scripts = [library.script, readFileSync(ownFile(`${entry}.js`), 'utf8')]
  const styles = [library.style, pageStyle + style]
  // Whatever the names of models contain: only these two scripts run, and no other server is contacted.
  const policy = `default-src 'none'; script-src ${scripts.map(hashOf).join(' ')}; style-src ${styles.map(hashOf).join(' ')};${asksItsServer ? " connect-src 'self';" : ''} base-uri 'none'; form-action 'none'`
  // A browser hashes each script and style as it stands between its tags: no space may be added there.
  const { text } = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${policy}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title}</title>
        ${styles.map((each) => new Html(`<style>${each}</style>`))}
      </head>
      <body>
        ${body}
        ${scripts.map((script) => new Html(`<script>${script}</script>`))}
      </body>
    </html> `
  return { text, policy }
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** The plotting library, inlined with its license, as a page loads nothing. */
function plottingLibrary(): { script: string; style: string } {
  const read = (file: string) => readFileSync(requireFromPackage.resolve(`uplot/${file}`), 'utf8')
  return {
    script: `/*!\n${read('LICENSE')}*/\n${read('dist/uPlot.iife.min.js')}`,
    style: read('dist/uPlot.min.css'),
  }
}

function properties(scheme: 0 | 1): string {
  return Object.entries(colours)
    .map(([name, pair]) => `--${name}:${pair[scheme]}`)
    .join(';')
}

const swatches = Object.keys(colours)
  .map((name) => `[data-colour=${name}]{--own:var(--${name})}`)
  .join('')

/** The style of the page on wide screens, on phones, in dark mode and on paper. */
const pageStyle = `
:root{color-scheme:light;${properties(0)}}
@media screen and (prefers-color-scheme:dark){:root:not([data-printed]){color-scheme:dark;${properties(1)}}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:1120px;margin:0 auto;padding:0 24px}
header{padding-top:36px}
h1{font-size:27px;line-height:1.25;letter-spacing:-.01em;margin:0 0 6px;font-weight:650}
h2{font-size:19px;line-height:1.3;margin:0 0 4px;font-weight:650}
h3{font-size:15px;margin:20px 0 4px;font-weight:600}
p{margin:0 0 12px;max-width:75ch}
.about,.lead,footer,.detail,.axis{color:var(--muted)}
.about{margin-bottom:18px}
.notice{background:var(--warned);color:var(--warning);border-left:3px solid currentColor;padding:9px 14px;border-radius:4px;max-width:none}
a{color:var(--accent);text-underline-offset:2px}
nav a{text-decoration:none}
nav a:hover{text-decoration:underline}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 22px;padding:0;font-size:14px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
.headline{display:grid;grid-template-columns:repeat(auto-fit,minmax(158px,1fr));gap:12px;margin:0 0 20px}
.headline div,section{background:var(--surface);border:1px solid var(--grid);border-radius:8px}
.headline div{padding:13px 16px 12px}
.headline dt{font-size:13px;color:var(--muted)}
.headline dd{margin:0}
.figure{font-size:21px;line-height:1.3;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.headline div:first-child .figure{color:var(--accent)}
.figure span{display:inline-block;line-height:1.4;font-size:13px;font-weight:400;letter-spacing:0;color:var(--muted)}
.detail{font-size:13px}
section{padding:20px 22px;margin:0 0 18px}
.parts{display:grid;grid-template-columns:minmax(0,1fr);gap:0 28px}
.pair{grid-template-columns:repeat(2,minmax(0,1fr))}
.parts>div{min-width:0}
.pair>div:last-child:nth-child(odd){grid-column:1/-1}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:6px 0 2px;padding:0;font-size:13px}
.legend li{display:flex;align-items:center;gap:6px}
.swatch{display:inline-block;width:14px;height:4px;border-radius:2px;background:var(--own,transparent);flex:none}
.bars .swatch{height:11px}
.swatch[data-dashed]{background:repeating-linear-gradient(90deg,var(--own) 0 5px,transparent 5px 8px)}
.swatch.hollow{width:10px;height:10px;border-radius:50%;border:2px solid var(--muted);background:none}
.axis{font-size:12px;margin:8px 0 2px}
.plot{width:100%;min-height:240px;overflow:hidden;position:relative}
.plot .u-cursor-x{border-right:1px solid var(--muted)}
.empty{max-width:none;display:flex;align-items:center;justify-content:center;min-height:110px;color:var(--muted);border:1px dashed var(--grid);border-radius:6px;margin:6px 0 12px}
.tooltip{position:absolute;top:0;left:0;z-index:9;max-width:100%;pointer-events:none;background:var(--surface);border:1px solid var(--grid);border-radius:6px;box-shadow:0 4px 14px #0003;padding:7px 10px;font-size:12.5px;line-height:1.5}
.tooltip[hidden]{display:none}
.tooltip strong{display:block}
.tooltip>span{display:grid;grid-template-columns:14px 1fr auto;gap:8px;align-items:center}
.tooltip b{font-weight:600;font-variant-numeric:tabular-nums;white-space:nowrap}
details{margin:8px 0 4px}
summary{cursor:pointer;color:var(--accent);font-size:14px;width:max-content;max-width:100%}
.table{overflow:auto;max-height:26rem;margin:8px 0}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);padding:0 0 6px;font-size:13px}
th,td{padding:5px 10px;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap;font-weight:400}
thead th{color:var(--muted);font-size:12.5px;font-weight:600;position:sticky;top:0;background:var(--surface)}
th:first-child{text-align:left;padding-left:0}
tbody th{font-weight:600}
.facts{max-height:none}
.facts th,.facts td{text-align:left;white-space:normal;vertical-align:top}
.facts tbody th{width:34%;font-weight:400;color:var(--muted)}
.badge{display:inline-block;margin-left:8px;padding:0 6px;border-radius:9px;font-size:11.5px;font-weight:600;background:var(--warned);color:var(--warning)}
.picker{display:flex;flex-wrap:wrap;align-items:center;gap:8px;margin:4px 0 0;font-size:14px}
select{font:inherit;color:inherit;background:var(--page);border:1px solid var(--muted);border-radius:5px;padding:4px 8px;max-width:100%}
footer{padding-bottom:36px;font-size:13px}
@media (max-width:760px){
.pair{grid-template-columns:minmax(0,1fr)}
header,main,footer{padding-left:12px;padding-right:12px}
header{padding-top:20px}
h1{font-size:22px}
caption{max-width:calc(100vw - 56px)}
section{padding:15px 14px}
.headline{grid-template-columns:repeat(2,minmax(0,1fr));gap:8px}
.headline div{padding:10px 12px}
.figure{font-size:18px}
}
@media print{
body{background:none;font-size:12px}
header,main,footer{max-width:none;padding:0}
nav,.picker,summary{display:none}
section,.headline div{break-inside:avoid;border-color:#ccc}
.table{max-height:none;overflow:visible}
table{font-size:10px}
th,td{padding:3px 5px;white-space:normal}
thead th{position:static}
details::details-content{content-visibility:visible;display:block}
}
${swatches}`
