import type { BatchReason } from 'zerohop'
import type { Frame } from 'zerohop/internals'
import { bytesOf, countOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'
import { element, rowElement } from '../../web-page/charts/page-elements.ts'
import type { Moment } from './live-charts.ts'

type ModelFrame = Frame['models'][number]
type RunningBatch = Frame['running'][number]
type EndedBatch = Frame['ended'][number]

/** Shows the headline: throughput, latency, batch size and failures. */
export function showHeadline({ frame, load: { window, waiting, running } }: Moment): void {
  const { windowMs, uptimeSeconds } = frame
  const perSecond = (count: number | undefined) =>
    count === undefined || windowMs === null ? null : (1000 * count) / windowMs
  const latency = window?.latency ?? null
  write('answered', countOf(perSecond(window?.answered)), `${countOf(perSecond(window?.rows))} rows/s`)
  write('p99', timeOf(latency && latency.p99Us), `p50 ${timeOf(latency && latency.p50Us)}`)
  write(
    'rows',
    countOf(window === null || window.runs === 0 ? null : window.rows / window.runs),
    `${countOf(perSecond(window?.runs))} batches/s`,
  )
  write('waiting', countOf(waiting), `batches running: ${countOf(running)}`)
  write(
    'failed',
    countOf(perSecond(window?.failed)),
    Object.keys(window?.failures ?? {}).join(', ') || 'none now',
  )
  write('uptime', timeOf(Math.floor(uptimeSeconds) * 1e6), 'since the process began')
}

function write(id: string, figure: string, detail: string): void {
  document.getElementById(`${id}-figure`)!.textContent = figure
  document.getElementById(`${id}-detail`)!.textContent = detail
}

/** Shows models, their instances, workers and staging memory. */
export function showState({ models, workers, staging, windowMs }: Frame): void {
  fillTable(
    'models',
    models.map((model) => modelRow(model, windowMs)),
  )
  fillTable(
    'instances',
    models.flatMap(({ instances }) =>
      instances.map(({ name, worker, runs, busyShare }) => [
        nameElement(name),
        worker,
        countOf(runs),
        shareOf(busyShare),
      ]),
    ),
  )
  fillTable(
    'workers',
    workers.map(({ name, instances, busyShare, restarts }) => [
      name,
      countOf(instances),
      shareOf(busyShare),
      countOf(restarts),
    ]),
  )
  fillTable(
    'staging',
    staging.map(({ pool, kind, usedBytes, highWaterBytes, reservedBytes, limitBytes, fallbacks }) => [
      `of ${pool}`,
      kind,
      ...[usedBytes, highWaterBytes, reservedBytes, limitBytes].map(bytesOf),
      countOf(fallbacks),
    ]),
  )
}

function modelRow(model: ModelFrame, windowMs: number | null): (string | Node)[] {
  const { window, waiting, running, instanceCount, isPipeline, maxBatchSize, answeredCount, failures } = model
  const perSecond = window === null || windowMs === null ? null : (1000 * window.answered) / windowMs
  const meanBatch = window === null || window.runs === 0 ? null : window.rows / window.runs
  const latency = window?.latency ?? null
  return [
    nameOf(model),
    isPipeline ? '–' : countOf(instanceCount),
    countOf(waiting),
    countOf(running),
    countOf(perSecond),
    isPipeline ? '–' : `${countOf(meanBatch)} of ${countOf(maxBatchSize)}`,
    timeOf(latency && latency.p50Us),
    timeOf(latency && latency.p99Us),
    countOf(answeredCount),
    countOf(Object.values(failures).reduce((sum, count) => sum + count, 0)),
  ]
}

/** The name with a note if the version does not serve, or does not yet. */
function nameOf({ name, version, state, serves, isPipeline }: ModelFrame): DocumentFragment {
  const shown = document.createDocumentFragment()
  shown.append(
    nameElement(name),
    element(
      'small',
      ` version ${version}${isPipeline ? ', pipeline' : ''}${serves ? '' : ', not asked by name'} `,
    ),
  )
  if (state === 'ready') return shown
  const badge = element('span', state)
  badge.className = 'badge'
  shown.append(badge)
  return shown
}

/** Why batches are closed, in the words of the documentation. */
const reasons: Readonly<Record<BatchReason, string>> = {
  full: 'no further request fits',
  preferred: 'it has a preferred size, or one tried or found to give more',
  idle: 'an instance was free, and nothing to wait for',
  bucket: 'others that wait have other shapes',
  delay: 'its oldest request has waited long enough',
  cost: 'with one more it would have cost too much',
  deadline: 'one of its requests has no more time',
  drain: 'the model is closing',
}

type Counts = ReadonlyMap<string, number>

/** Shows counts over all kept frames: batch sizes, closing reasons and failure reasons. */
export function showTallies(moments: readonly (Moment | null)[]): void {
  const windows = moments.flatMap((moment) => moment?.load.window ?? [])
  const sizes = sumOf(
    windows.map(({ batchSizes }) =>
      batchSizes.map(({ batchSize, count }) => [String(batchSize), count] as const),
    ),
  )
  fillTable('sizes', rowsOf(new Map([...sizes].sort(([a], [b]) => Number(a) - Number(b)))))
  fillTable(
    'reasons',
    rowsOf(descending(sumOf(windows.map(({ batchReasons }) => Object.entries(batchReasons)))), withMeaning),
  )
  fillTable('failures', rowsOf(descending(sumOf(windows.map(({ failures }) => Object.entries(failures))))))
}

function sumOf(
  counted: readonly (readonly (readonly [name: string, count: number])[])[],
): Map<string, number> {
  const sums = new Map<string, number>()
  for (const [name, count] of counted.flat()) sums.set(name, (sums.get(name) ?? 0) + count)
  return sums
}

function descending(counts: Counts): Counts {
  return new Map([...counts].sort(([, a], [, b]) => b - a))
}

function rowsOf(
  counts: Counts,
  named: (name: string) => string | Node = (name) => name,
): (string | Node)[][] {
  const values = [...counts.values()]
  const total = values.reduce((sum, count) => sum + count, 0)
  const most = values.reduce((a, b) => Math.max(a, b), 0)
  return [...counts].map(([name, count]) => [
    named(name),
    barOf(count / most),
    countOf(count),
    shareOf(count / total),
  ])
}

function withMeaning(reason: string): HTMLElement {
  const shown = element('span', reason)
  const meaning = Object.hasOwn(reasons, reason) ? reasons[reason as BatchReason] : undefined
  if (meaning !== undefined) shown.append(element('small', meaning))
  return shown
}

function barOf(share: number): HTMLElement {
  const bar = element('i')
  bar.className = 'bar'
  bar.style.width = `${100 * share}%`
  return bar
}

const mostShown = 20

/** The running batches, and the last ended ones, the newest first. */
export class BatchList {
  #ended: EndedBatch[] = []

  add({ running, ended }: Frame): void {
    this.#ended = [...ended.toReversed(), ...this.#ended].slice(0, mostShown)
    const rows = [
      ...running.map((batch) => [...cellsOf(batch), badgeOf('running'), '–', '–']),
      ...this.#ended.map((batch) => [
        ...cellsOf(batch),
        outcomeOf(batch),
        timeOf(batch.inferUs),
        timeOf(batch.wholeUs),
      ]),
    ]
    fillTable('batches', rows.slice(0, mostShown))
  }
}

function cellsOf({ model, id, rows, requests, reason, instance }: RunningBatch): (string | Node)[] {
  return [
    batchName(model, id),
    countOf(rows),
    countOf(requests),
    reason,
    instance === '' ? '–' : nameElement(instance),
  ]
}

function batchName(model: string, id: number): DocumentFragment {
  const shown = document.createDocumentFragment()
  shown.append(nameElement(model), ` #${id}`)
  return shown
}

function outcomeOf({ endedAtMs, inline, isRerun }: EndedBatch): string | Node {
  if (endedAtMs === null) return badgeOf('failed')
  return isRerun ? 'run again' : inline ? 'inline' : 'done'
}

function badgeOf(text: string): HTMLElement {
  const badge = element('span', text)
  badge.className = text === 'running' ? 'badge quiet' : 'badge'
  return badge
}

/** Writes the rows of a table, or a note that there are none. */
function fillTable(id: string, rows: readonly (readonly (string | Node)[])[]): void {
  const body = document.getElementById(id)!.querySelector('tbody')!
  const columns = document.querySelectorAll(`#${id} thead th`).length
  if (rows.length > 0) return body.replaceChildren(...rows.map(rowElement))
  const nothing = rowElement(['none'])
  nothing.className = 'none'
  nothing.firstElementChild!.setAttribute('colspan', String(columns))
  body.replaceChildren(nothing)
}

/** A name in a table. The page cuts a long one, and shows it in full under the pointer. */
function nameElement(name: string): HTMLElement {
  const shown = element('span', name)
  shown.className = 'name'
  shown.title = name
  return shown
}
