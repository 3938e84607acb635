import { element, onColourChange } from '../../web-page/charts/page-elements.ts'
import { BatchList, showHeadline, showState, showTallies } from './page-tables.ts'
import type { Frame } from 'zerohop/internals'
import { FrameHistory, modelCharts, modelKey, processCharts } from './live-charts.ts'
import { TimePlot } from './time-plot.ts'

/** Delay after an error response, such as for too many pages. */
const retryMs = 5000

const history = new FrameHistory()
const batches = new BatchList()
const plots = new Map<Element, TimePlot>()
const picker = document.getElementById('model') as HTMLSelectElement
const status = document.getElementById('status')!
let events: EventSource | null = null

function chosen(): string | null {
  return picker.value === '' ? null : picker.value
}

function show(): void {
  const moments = history.moments(chosen())
  const last = moments.at(-1)
  if (last === undefined || last === null) return
  for (const { id } of [...modelCharts, ...processCharts])
    plots.get(document.getElementById(`${id}-plot`)!)?.show(moments)
  showHeadline(last)
  showTallies(moments)
}

/** Keeps the list of models while its entries stay the same, as it may be open. */
function listModels({ models, modelsLeftOut }: Frame): void {
  const keys = models.map(modelKey)
  const listed = [...picker.options].slice(1).map(({ value }) => value)
  document.getElementById('left-out')!.textContent =
    modelsLeftOut === 0 ? '' : `${modelsLeftOut} more, the idlest, are not shown.`
  if (keys.join('\n') === listed.join('\n')) return
  const before = picker.value
  const options = keys.map((key) =>
    Object.assign(element('option', key) as HTMLOptionElement, { value: key }),
  )
  picker.replaceChildren(picker.options[0]!, ...options)
  picker.value = keys.includes(before) ? before : ''
}

function receive(frame: Frame): void {
  if (plots.size === 0) drawCharts(frame.intervalMs)
  history.add(frame)
  listModels(frame)
  showState(frame)
  batches.add(frame)
  show()
  tell('live', `Live, every ${frame.intervalMs / 1000} s`)
}

function drawCharts(intervalMs: number): void {
  for (const chart of [...modelCharts, ...processCharts]) {
    const place = document.getElementById(`${chart.id}-plot`)!
    const plot = new TimePlot(place, chart, intervalMs)
    plots.set(place, plot)
    place.addEventListener('keydown', (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
      if (by === undefined) return
      event.preventDefault()
      plot.step(by)
    })
    place.addEventListener('blur', () => plot.step(null))
    sizes.observe(place)
  }
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) plots.get(target)?.resize()
})

function tell(state: 'live' | 'lost' | 'paused', text: string): void {
  if (status.textContent !== text) status.textContent = text // screen readers read a change once
  status.dataset['state'] = state
}

function connect(): void {
  events?.close()
  const source = new EventSource(location.href)
  events = source
  source.addEventListener('message', ({ data }) => receive(JSON.parse(data as string) as Frame))
  source.addEventListener('error', () => {
    tell('lost', 'Not connected, trying again')
    if (source.readyState !== EventSource.CLOSED) return // it reconnects by itself
    setTimeout(() => {
      if (events === source) connect()
    }, retryMs)
  })
}

/** Disconnects while the page is hidden, so that it costs its server nothing. */
function followVisibility(): void {
  if (document.visibilityState === 'visible') return connect()
  events?.close()
  events = null
  tell('paused', 'Paused while it is not seen')
}

picker.addEventListener('change', show)
onColourChange(() => plots.forEach((plot) => plot.redraw()))
document.addEventListener('visibilitychange', followVisibility)
followVisibility()
