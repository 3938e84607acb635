import { element } from '../../web-page/charts/page-elements.ts'
import { bytesOf, countOf, shareOf, timeOf } from '../../web-page/charts/figures.ts'
import { fillTable } from './fill-table.ts'
import type { Frame, ModelFrame } from 'zerohop/internals'
import { nameElement } from './name-element.ts'

/** What there is: models, their instances, workers, staging memory. */
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

/** With what is to be known of it: that it does not serve, or does not yet. */
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
