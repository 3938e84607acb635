import type { Trace, TraceTensor } from './trace.ts'

/** What is shown of a tensor of more elements, at each end of each dimension: as NumPy does. */
const edge = 3
const mostShown = 1000
const width = 50
/** More levels than there are, of pipelines in pipelines and of dims. */
const deepest = 100

/** The tensors of the first request that has any, or of the first with others inside, and of those: in the layout of Triton's tool; `''` where there are none. */
export function dataFlowText(traces: readonly Trace[]): string {
  const children = new Map<number, Trace[]>()
  for (const trace of traces)
    if (trace.parentId !== undefined)
      children.set(trace.parentId, [...(children.get(trace.parentId) ?? []), trace])
  const withTensors = traces.filter(({ tensors }) => tensors.length > 0)
  if (withTensors.length === 0) return ''
  const first =
    traces.find(
      ({ id, parentId, tensors }) => parentId === undefined && tensors.length > 0 && children.has(id),
    ) ?? withTensors[0]!
  const depth = depthOf(first, children, 0, new Set())
  return `Data Flow:\n${flow(first, children, depth, 0, new Set()).join('\n')}\n`
}

/** How many levels there are below a trace. */
function depthOf(
  { id }: Trace,
  children: ReadonlyMap<number, readonly Trace[]>,
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
  children: ReadonlyMap<number, readonly Trace[]>,
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

/** Strings are in quotes, where this library has written them. */
function stringsOf(data: string): string[] {
  try {
    return (JSON.parse(`[${data}]`) as unknown[]).map((item) => JSON.stringify(item))
  } catch {
    return data.split(',')
  }
}
