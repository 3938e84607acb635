import { element } from '../../web-page/charts/page-elements.ts'
import { countOf, timeOf } from '../../web-page/charts/figures.ts'
import { fillTable } from './fill-table.ts'
import type { EndedBatch, Frame, RunningBatch } from 'zerohop/internals'
import { nameElement } from './name-element.ts'

const mostShown = 20

/** The batches that run, and those that ended last, the newest first. */
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
