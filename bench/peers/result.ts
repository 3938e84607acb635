import { median, middleBy, round } from '../statistics.ts'
import { atLeast, type Target } from '../targets.ts'
import { hasP99, type LevelFigures } from './level-run.ts'
import type { Peer } from './peer.ts'
import type { Plan } from './plan.ts'
import type { WorkloadName } from './workload.ts'

/** A peer with a workload in one round. */
export interface Unit {
  readonly workload: WorkloadName
  readonly peer: string
  readonly round: number
  /** Up to where it failed; `null` where that was at once. */
  readonly levels: readonly LevelFigures[] | null
  readonly error: string | null
  /** ISO 8601. */
  readonly date: string
  /** A hash of all that its figures are of: build, versions, settings, machine. */
  readonly of: string
}

export type Row = Readonly<Record<string, string | number>>

export interface Table {
  readonly title: string
  readonly rows: readonly Row[]
}

/** Requests a second of one of ours and of a peer in the same round. */
interface Beside {
  readonly own: number
  readonly other: number
  readonly ratio: number
}

type Figure = 'requestsPerSecond' | 'p50Ms' | 'p99Ms' | 'cpuUsPerRequest' | 'pssBytes'

/** What was found of the peers with a workload, medians over the rounds. */
export class Found {
  readonly #units: readonly Unit[]

  constructor(units: readonly Unit[]) {
    this.#units = units.filter(({ levels }) => levels !== null)
  }

  has(workload: WorkloadName, peer: string): boolean {
    return this.#of(workload, peer).length > 0
  }

  /** At a load; `null` where it was not held, or of too few requests for what is asked. */
  at(
    workload: WorkloadName,
    peer: string,
    load: Pick<LevelFigures, 'callers'> | Pick<LevelFigures, 'ratePerSecond'>,
    figure: Figure,
  ): number | null {
    const isAsked = (level: LevelFigures): boolean =>
      'callers' in load ? level.callers === load.callers : level.ratePerSecond === load.ratePerSecond
    const tells = (level: LevelFigures): boolean => figure !== 'p99Ms' || hasP99(level)
    const values = this.#of(workload, peer).flatMap(({ levels }) =>
      levels!.filter((level) => isAsked(level) && tells(level)).map((level) => level[figure]),
    )
    return values.length === 0 ? null : median(values)
  }

  /** Requests a second of one to those of the other, in the same round. */
  ratio(workload: WorkloadName, ours: string, peer: string, callers: number): number | null {
    const rounds = this.#besides(workload, ours, peer, callers)
    return rounds.length === 0 ? null : median(rounds.map(({ ratio }) => ratio))
  }

  /** Requests a second of both in the round whose ratio is in the middle: medians of their own may have another quotient. */
  beside(workload: WorkloadName, ours: string, peer: string, callers: number): Beside | null {
    return middleBy(this.#besides(workload, ours, peer, callers), ({ ratio }) => ratio) ?? null
  }

  #besides(workload: WorkloadName, ours: string, peer: string, callers: number): Beside[] {
    // There is no form in process: what callers do is the same.
    const ourWorkload = this.has(workload, ours) || workload !== 'mlp-binary' ? workload : 'mlp'
    return this.#of(workload, peer).flatMap((unit) => {
      const round = this.#of(ourWorkload, ours).find((other) => other.round === unit.round)
      const [a, b] = [round, unit].map(
        (each) => each?.levels!.find((level) => level.callers === callers)?.requestsPerSecond,
      )
      return a === undefined || b === undefined ? [] : [{ own: a, other: b, ratio: a / b }]
    })
  }

  #of(workload: WorkloadName, peer: string): Unit[] {
    return this.#units.filter((unit) => unit.workload === workload && unit.peer === peer)
  }
}

export interface Asked {
  readonly workload: WorkloadName
  readonly title: string
  readonly rates: readonly number[]
  readonly peers: readonly Peer[]
}

const shown = (value: number | null, digits?: number): string | number => {
  if (value === null) return '-'
  return round(value, digits ?? (value >= 100 ? 0 : value >= 10 ? 1 : 2))
}

/** A table of a workload; the rows of all have the same columns. A peer that was not measured is a row that says why. */
export function tableOfWorkload(
  { workload, title, rates, peers }: Asked,
  units: readonly Unit[],
  missing: Readonly<Record<string, string>>,
  { callers }: Plan,
): Table {
  const found = new Found(units)
  const middle = callers.includes(64) ? 64 : callers[0]!
  const rows = peers.map((peer) => {
    const at = (load: Parameters<Found['at']>[2], figure: Figure): number | null =>
      found.at(workload, peer.name, load, figure)
    const pssBytes = callers
      .map((count) => at({ callers: count }, 'pssBytes'))
      .filter((bytes) => bytes !== null)
    const lowest = (ours: string): string | number =>
      shown(lowestRatio(found, workload, ours, peer.name, callers)?.ratio ?? null)
    return {
      peer: peer.name,
      ...Object.fromEntries(
        callers.map((count) => [`${count} /s`, shown(at({ callers: count }, 'requestsPerSecond'))]),
      ),
      [`p50 ms (${middle})`]: shown(at({ callers: middle }, 'p50Ms')),
      [`p99 ms (${middle})`]: shown(at({ callers: middle }, 'p99Ms')),
      [`CPU us (${middle})`]: shown(at({ callers: middle }, 'cpuUsPerRequest')),
      'PSS MB': pssBytes.length === 0 ? '-' : round(Math.max(...pssBytes) / 1e6, 0),
      ...Object.fromEntries(
        rates.map((rate) => [
          `p50 / p99 ms at ${rate}/s`,
          `${shown(at({ ratePerSecond: rate }, 'p50Ms'))} / ${shown(at({ ratePerSecond: rate }, 'p99Ms'))}`,
        ]),
      ),
      'zerohop to it': lowest('zerohop'),
      'in Fastify to it': peer.kind === 'http' ? lowest('fastify-zerohop') : '-',
      note:
        whyNot(peer, workload, units, missing) ?? (found.has(workload, peer.name) ? '' : 'not measured yet'),
    }
  })
  return { title, rows }
}

function whyNot(
  peer: Peer,
  workload: WorkloadName,
  units: readonly Unit[],
  missing: Readonly<Record<string, string>>,
): string | null {
  const error = units.findLast(
    (unit) => unit.peer === peer.name && unit.workload === workload && unit.error !== null,
  )?.error
  return peer.lacks?.(workload) ?? missing[peer.name] ?? error ?? null
}

/** Where ours is the least ahead. */
function lowestRatio(
  found: Found,
  workload: WorkloadName,
  ours: string,
  peer: string,
  callers: readonly number[],
): { ratio: number; callers: number } | null {
  const ratios = callers.flatMap((count) => {
    const ratio = found.ratio(workload, ours, peer, count)
    return ratio === null ? [] : [{ ratio, callers: count }]
  })
  return ratios.length === 0
    ? null
    : ratios.reduce((least, each) => (each.ratio < least.ratio ? each : least))
}

/** One of ours in process is to be ahead of every peer at each level of load: in bfloat16 only of one that computes in it. */
export function targetsOf(asked: readonly Asked[], units: readonly Unit[], { callers }: Plan): Target[] {
  const found = new Found(units)
  const hasFailed = units.some(({ peer, error }) => peer === 'zerohop' && error !== null)
  return asked.flatMap(({ workload, title, peers }) => {
    const all = peers
      .filter(({ name }) => !isOurs(name))
      .flatMap((peer) => {
        return callers.flatMap((count) => {
          const best = oursLike(peer).flatMap((ours) => found.ratio(workload, ours, peer.name, count) ?? [])
          // Where ours failed it is not ahead.
          if (
            best.length === 0 &&
            hasFailed &&
            found.at(workload, peer.name, { callers: count }, 'requestsPerSecond') !== null
          )
            best.push(0)
          return best.length === 0 ? [] : [{ name: peer.name, callers: count, ratio: Math.max(...best) }]
        })
      })
    if (all.length === 0) return []
    const least = all.reduce((lowest, each) => (each.ratio < lowest.ratio ? each : lowest))
    return [
      atLeast(
        1,
        `${title}: the best of zerohop in process to each peer at each number of callers, the lowest (${least.name} at ${least.callers})`,
        round(least.ratio, 3),
      ),
    ] // 0.996 is not ahead
  })
}

export const isOurs = (name: string): boolean => name.includes('zerohop')

const oursLike = ({ lowPrecision = false }: Peer): string[] => [
  'zerohop',
  'zerohop-openvino-float32',
  ...(lowPrecision ? ['zerohop-openvino'] : []),
]

/** The rows of all tables, which get the same columns. */
export function joined(tables: readonly Table[]): Row[] {
  const columns = [...new Set(tables.flatMap(({ rows }) => Object.keys(rows[0] ?? {})))]
  return tables.flatMap(({ title, rows }) =>
    rows.map((row) => ({
      model: title,
      ...Object.fromEntries(columns.map((column) => [column, row[column] ?? '-'])),
    })),
  )
}

export function markdownOf({ title, rows }: Table): string {
  const columns = Object.keys(rows[0] ?? {})
  const line = (cells: readonly (string | number)[]): string =>
    `| ${cells.map((cell) => String(cell).replaceAll('\n', ' ').replaceAll('|', '\\|')).join(' | ')} |`
  return [
    `### ${title}`,
    '',
    line(columns),
    line(columns.map((column) => (column === 'peer' || column === 'note' ? '---' : '---:'))),
    ...rows.map((row) => line(columns.map((column) => row[column]!))),
    '',
  ].join('\n')
}
