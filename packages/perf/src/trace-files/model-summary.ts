import { grouped } from '../grouped.ts'
import { timestampOf, type Trace, type TraceTensor } from './read-trace-file.ts'

/** The frontend that Triton's traces come in by; `null` for this library's, which are in-process. */
type Frontend = 'HTTP' | 'GRPC' | null

/** Average times of one model's requests, in microseconds. */
export interface ModelSummary {
  readonly model: string
  readonly version: number
  readonly frontend: Frontend
  /** Traces of answered requests. */
  readonly traceCount: number
  /** Of these, the ones that another request's run answered. */
  readonly cachedCount: number
  readonly coalescedCount: number
  /** Unanswered requests, by reason. They are in no average. */
  readonly failures: Readonly<Record<string, number>>
  /** Times of the frontend; `null` without one. */
  readonly request: {
    readonly averageUs: number
    readonly receiveUs: number
    readonly sendUs: number
    readonly overheadUs: number
  } | null
  readonly handlerUs: number
  /** `null` if no request was queued or run, as in Triton's ensembles. */
  readonly parts: { readonly overheadUs: number; readonly queueUs: number; readonly computeUs: number } | null
  /** `null` if unknown. */
  readonly compute: { readonly inputUs: number; readonly inferUs: number; readonly outputUs: number } | null
}

interface Sums {
  readonly key: Pick<ModelSummary, 'model' | 'version' | 'frontend'>
  count: number
  cached: number
  coalesced: number
  readonly failures: Record<string, number>
  /** In nanoseconds, by the names of Triton's tool. */
  readonly spans: Map<string, number>
}

/**
 * Summarises the traces of a file by model and version, as Triton's tool does. Traces of a frontend are
 * counted separately; child traces count with their parent's frontend.
 */
export class ModelSummaries {
  readonly #all = new Map<string, Sums>()
  /** Frontends by trace, for traces that came in by one, or whose parent did. */
  readonly #frontends = new Map<number, Frontend>()

  /** @param trace must come after its parent, if that came in by a frontend. */
  add(trace: Trace): void {
    const own =
      timestampOf(trace, 'HTTP_RECV_START') !== undefined
        ? 'HTTP'
        : timestampOf(trace, 'GRPC_WAITREAD_START') !== undefined
          ? 'GRPC'
          : null
    const frontend =
      own ?? (trace.parentId === undefined ? null : (this.#frontends.get(trace.parentId) ?? null))
    if (frontend !== null) this.#frontends.set(trace.id, frontend)
    const startNs = timestampOf(trace, 'REQUEST_START')
    const endNs = timestampOf(trace, 'REQUEST_END')
    if (startNs === undefined || endNs === undefined) return
    const sums = sumsOf(this.#all, { model: trace.model, version: trace.version, frontend })
    if (trace.error !== undefined) {
      sums.failures[trace.error] = (sums.failures[trace.error] ?? 0) + 1
      return
    }
    sums.count++
    if (trace.shared === 'cached') sums.cached++
    if (trace.shared === 'coalesced') sums.coalesced++
    for (const [name, ns] of spansOf(trace)) sums.spans.set(name, (sums.spans.get(name) ?? 0) + ns)
  }

  get all(): ModelSummary[] {
    const order: Frontend[] = ['HTTP', 'GRPC', null]
    return [...this.#all.values()]
      .map(summaryOf)
      .toSorted((a, b) => order.indexOf(a.frontend) - order.indexOf(b.frontend))
  }
}

/** The parts of a request's time, in nanoseconds. */
function spansOf(trace: Trace): Map<string, number> {
  const spans = new Map<string, number>()
  const add = (name: string, from: string, to: string) => {
    const [fromNs, toNs] = [timestampOf(trace, from), timestampOf(trace, to)]
    if (fromNs !== undefined && toNs !== undefined) spans.set(name, Math.max(0, toNs - fromNs))
  }
  add('HTTP_INFER', 'HTTP_RECV_START', 'HTTP_SEND_END')
  add('HTTP_RECV', 'HTTP_RECV_START', 'HTTP_RECV_END')
  add('HTTP_SEND', 'HTTP_SEND_START', 'HTTP_SEND_END')
  add('GRPC_INFER', 'GRPC_WAITREAD_START', 'GRPC_SEND_END')
  add('GRPC_RECV', 'GRPC_WAITREAD_START', 'GRPC_WAITREAD_END')
  add('GRPC_SEND', 'GRPC_SEND_START', 'GRPC_SEND_END')
  add('REQUEST', 'REQUEST_START', 'REQUEST_END')
  add('QUEUE', 'QUEUE_START', 'COMPUTE_START')
  const own = computeOf(trace)
  if (own !== null) return new Map([...spans, ...own])
  add('COMPUTE', 'COMPUTE_START', 'COMPUTE_END')
  const ends = ['COMPUTE_INPUT_END', 'COMPUTE_OUTPUT_START']
  if (ends.some((name) => timestampOf(trace, name) === undefined)) return spans
  add('COMPUTE_INPUT', 'COMPUTE_START', 'COMPUTE_INPUT_END')
  add('COMPUTE_INFER', 'COMPUTE_INPUT_END', 'COMPUTE_OUTPUT_START')
  add('COMPUTE_OUTPUT', 'COMPUTE_OUTPUT_START', 'COMPUTE_END')
  return spans
}

/**
 * As in the statistics: the times of the batches that answered the request, without the time between the run
 * and its outputs.
 */
function computeOf({ batches, shared }: Trace): Map<string, number> | null {
  const ran = batches.flatMap((batch) => (batch.moments === null ? [] : [batch]))
  const answering = ran.some(({ part }) => part !== undefined) ? ran : ran.slice(-1)
  if (answering.length === 0 && shared === undefined) return null
  let [inputNs, inferNs, outputNs] = [0, 0, 0]
  for (const { moments } of answering) {
    const { takenNs, gatheredNs, startNs, inferStartNs, inferEndNs, outputStartNs, outputEndNs } = moments!
    inputNs += gatheredNs - takenNs + (inferStartNs - startNs)
    inferNs += inferEndNs - inferStartNs
    outputNs += outputEndNs - outputStartNs
  }
  return new Map([['COMPUTE', inputNs + inferNs + outputNs], ['COMPUTE_INPUT', inputNs], ['COMPUTE_INFER', inferNs], ['COMPUTE_OUTPUT', outputNs]]) // prettier-ignore
}

function sumsOf(all: Map<string, Sums>, key: Sums['key']): Sums {
  const name = JSON.stringify(key)
  let sums = all.get(name)
  if (sums === undefined)
    all.set(
      name,
      (sums = {
        key,
        count: 0,
        cached: 0,
        coalesced: 0,
        failures: Object.create(null) as Record<string, number>,
        spans: new Map(),
      }),
    )
  return sums
}

function summaryOf({ key, count, cached, coalesced, failures, spans }: Sums): ModelSummary {
  const averageUs = (...names: readonly [plus: string, ...minus: string[]]) => {
    const [first, ...others] = names.map((name) => spans.get(name) ?? 0)
    return count === 0 ? 0 : Math.round((first! - others.reduce((sum, ns) => sum + ns, 0)) / count) / 1000
  }
  const { frontend } = key
  const isQueued = spans.has('QUEUE') && spans.has('COMPUTE')
  return {
    ...key, traceCount: count, cachedCount: cached, coalescedCount: coalesced, failures: { ...failures },
    request: frontend === null || !spans.has(`${frontend}_INFER`) ? null : {
      averageUs: averageUs(`${frontend}_INFER`), receiveUs: averageUs(`${frontend}_RECV`), sendUs: averageUs(`${frontend}_SEND`),
      overheadUs: averageUs(`${frontend}_INFER`, 'REQUEST', `${frontend}_RECV`, `${frontend}_SEND`),
    },
    handlerUs: averageUs('REQUEST'),
    parts: isQueued ? { overheadUs: averageUs('REQUEST', 'QUEUE', 'COMPUTE'), queueUs: averageUs('QUEUE'), computeUs: averageUs('COMPUTE') } : null,
    compute: spans.has('COMPUTE_INPUT') ? { inputUs: averageUs('COMPUTE_INPUT'), inferUs: averageUs('COMPUTE_INFER'), outputUs: averageUs('COMPUTE_OUTPUT') } : null,
  } // prettier-ignore
}

/** A summary in the layout of Triton's `trace_summary.py`. */
export function summaryText(summary: ModelSummary): string {
  const { frontend, request, parts, compute, cachedCount, coalescedCount } = summary
  const lines = [`Summary for ${summary.model} (${summary.version}): trace count = ${summary.traceCount}`]
  const add = (tabs: string, averagesUs: Readonly<Record<string, number>>) => {
    for (const [name, us] of Object.entries(averagesUs)) lines.push(`${tabs}${name} (avg): ${us}us`)
  }
  if (request !== null) {
    const receive = frontend === 'HTTP' ? 'Receive' : 'Wait/Read'
    add('', { [`${frontend} infer request`]: request.averageUs })
    add('\t', { [receive]: request.receiveUs, Send: request.sendUs, Overhead: request.overheadUs })
  }
  add('\t', { Handler: summary.handlerUs })
  if (parts !== null)
    add('\t\t', { Overhead: parts.overheadUs, Queue: parts.queueUs, Compute: parts.computeUs })
  if (compute !== null)
    add('\t\t\t', { Input: compute.inputUs, Infer: compute.inferUs, Output: compute.outputUs })
  if (cachedCount + coalescedCount > 0)
    lines.push(
      `\tAnswered by the runs of others: ${cachedCount} from the cache, ${coalescedCount} by a run in flight`,
    )
  const failed = Object.entries(summary.failures).map(([why, count]) => `${count} ${why}`)
  if (failed.length > 0) lines.push(`\tNot answered, and left out above: ${failed.join(', ')}`)
  return `${lines.join('\n')}\n`
}

/** One trace, with the times between its timestamps. */
export function traceText({ model, version, id, parentId, error, timestamps }: Trace): string {
  const lines = [`${model} (${version}):`, `\tid: ${id}`]
  if (parentId !== undefined) lines.push(`\tparent id: ${parentId}`)
  if (error !== undefined) lines.push(`\terror: ${error}`)
  let lastNs: number | null = null
  for (const { name, ns } of timestamps.toSorted((a, b) => a.ns - b.ns)) {
    if (lastNs !== null) lines.push(`\t\t${(ns - lastNs) / 1000}us`)
    lines.push(`\t${name}`)
    lastNs = ns
  }
  return `${lines.join('\n')}\n`
}

/** Elements shown at each end of each dimension of a larger tensor, as in NumPy. */
const edge = 3
const mostShown = 1000
const width = 50
/** Most levels of nested pipelines and dims. */
const deepest = 100

/**
 * The tensors of the first request that has any, or of the first with nested requests, and of those: in the
 * layout of Triton's tool; `''` if there are none.
 */
export function dataFlowText(traces: readonly Trace[]): string {
  const children = grouped(traces, ({ parentId }) => parentId)
  const withTensors = traces.filter(({ tensors }) => tensors.length > 0)
  if (withTensors.length === 0) return ''
  const first =
    traces.find(
      ({ id, parentId, tensors }) => parentId === undefined && tensors.length > 0 && children.has(id),
    ) ?? withTensors[0]!
  const depth = depthOf(first, children, 0, new Set())
  return `Data Flow:\n${flow(first, children, depth, 0, new Set()).join('\n')}\n`
}

/** Number of levels below a trace. */
function depthOf(
  { id }: Trace,
  children: ReadonlyMap<number | undefined, readonly Trace[]>,
  step: number,
  seen: Set<number>,
): number {
  if (seen.has(id) || step > deepest) return 0
  seen.add(id)
  return (children.get(id) ?? []).reduce(
    (most, child) => Math.max(most, 1 + depthOf(child, children, step + 1, seen)),
    0,
  )
}

function flow(
  trace: Trace,
  children: ReadonlyMap<number | undefined, readonly Trace[]>,
  depth: number,
  step: number,
  seen: Set<number>,
): string[] {
  if (seen.has(trace.id) || step > deepest) return []
  seen.add(trace.id)
  const tabs = '\t'.repeat(step + 1)
  const line = `${tabs}${'='.repeat(width + 8 * (depth - step))}`
  const tensors = trace.tensors.flatMap((tensor) => [
    `${tabs}${tensor.activity.replace(/^TENSOR_/, '')}:`,
    `${tabs}\t${tensor.name}: ${elementsText(tensor)}`,
  ])
  const own = [line, `${tabs}Name:   ${trace.model}`, `${tabs}Version:${trace.version}`, ...tensors, line]
  return [
    ...own,
    ...(children.get(trace.id) ?? []).flatMap((child) => flow(child, children, depth, step + 1, seen)),
  ]
}

/** Elements in brackets by their dims. */
function elementsText({ data, shape, dtype }: TraceTensor): string {
  const elements = dtype === 'BYTES' ? stringsOf(data) : data === '' ? [] : data.split(',')
  const dims = shape === '' ? [] : shape.split(',').map(Number)
  const count = dims.reduce((product, dim) => product * dim, 1)
  if (count === 0) return '[]'
  if (
    count !== elements.length ||
    dims.length > deepest ||
    !dims.every((dim) => Number.isSafeInteger(dim) && dim >= 0)
  )
    return data
  return nested(elements, dims, count > mostShown)
}

function nested(elements: readonly string[], [dim, ...rest]: readonly number[], isCut: boolean): string {
  if (dim === undefined) return elements[0] ?? ''
  const stride = elements.length / Math.max(1, dim)
  const part = (index: number) => nested(elements.slice(index * stride, (index + 1) * stride), rest, isCut)
  const shown =
    isCut && dim > 2 * edge ? [...indices(0, edge), -1, ...indices(dim - edge, dim)] : indices(0, dim)
  return `[${shown.map((index) => (index === -1 ? '...' : part(index))).join(' ')}]`
}

function indices(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => from + index)
}

/** Strings are quoted in this library's files. */
function stringsOf(data: string): string[] {
  try {
    return (JSON.parse(`[${data}]`) as unknown[]).map((item) => JSON.stringify(item))
  } catch {
    return data.split(',')
  }
}
