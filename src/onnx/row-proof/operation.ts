import {
  broadcastDims,
  isAtLeast,
  isSame,
  multiply,
  ofRows,
  rowDim,
  shown,
  shownDims,
  subtract,
  takeSteps,
  type Dim,
} from './dims.ts'
import type { Attribute, OnnxGraph, OnnxNode } from './onnx-model.ts'
import {
  countsRows,
  elementType,
  sameRows,
  tensor,
  type Fault,
  type Place,
  type Rows,
  type Tensor,
  type Value,
} from './followed-values.ts'
import { meets, notFollowed } from './not-proved.ts'

/** What an operator makes of its inputs; throws where rows meet, or where that is not known. */
export type Rule = (op: Operation) => Value | readonly (Value | null)[]

/** Rules by operator; those of other domains than ONNX's own with the domain, as `com.microsoft:Gelu`. */
export type Rules = Readonly<Record<string, Rule>>

/** Runs a subgraph in the place of the operation that has it. */
export type RunGraph = (graph: OnnxGraph, inputs: readonly Value[]) => Value[]

/** An operator with its inputs and attributes, as its rule asks for them. */
export class Operation {
  /** Its name without the domain. */
  readonly operator: string
  /** Of the set of operators that it is from. */
  readonly version: number
  /** `null` for one that is left out. */
  readonly inputs: readonly (Value | null)[]
  readonly outputCount: number
  readonly runGraph: RunGraph
  /** Unique to it: symbols are named after it. */
  readonly label: string
  /** What one of its outputs is where rows meet in that alone. */
  readonly fault: (verdict: Fault['verdict'], reason: string) => Fault
  readonly #attributes: ReadonlyMap<string, Attribute>
  readonly #read = new Set<number>()

  constructor(
    { operator, outputs, attributes }: Pick<OnnxNode, 'operator' | 'outputs' | 'attributes'>,
    version: number,
    label: string,
    inputs: readonly (Value | null)[],
    runGraph: RunGraph,
    fault: Operation['fault'],
  ) {
    this.operator = operator
    this.version = version
    this.label = label
    this.inputs = inputs
    this.outputCount = outputs.length
    this.runGraph = runGraph
    this.fault = fault
    this.#attributes = attributes
  }

  has(index: number): boolean {
    return (this.inputs[index] ?? null) !== null
  }

  /** An input of any kind. */
  value(index: number): Value | null {
    this.#read.add(index)
    return this.inputs[index] ?? null
  }

  /** An input, whatever it holds: a shape as well, which may depend on the number of rows. */
  raw(index: number): Tensor {
    const value = this.value(index)
    return value?.kind === 'tensor'
      ? value
      : notFollowed(`input ${index} is ${value === null ? 'left out' : 'no tensor'}`)
  }

  /** An input that may hold places of rows, as indices do; not how many there are. */
  indices(index: number): Tensor {
    const value = this.raw(index)
    return countsRows(value) ? meets('a value depends on the number of rows') : value
  }

  /** An input that is used as data. Throws where it depends on the number of rows, or on a row's place. */
  data(index: number): Tensor {
    const value = this.indices(index)
    if (value.place !== null || value.columns !== null)
      return meets('a value depends on the places of rows in the batch')
    return value
  }

  optional(index: number): Tensor | null {
    return this.has(index) ? this.data(index) : null
  }

  /** All inputs, without those that are left out. */
  all(from = 0): Tensor[] {
    return [...this.inputs.keys()]
      .slice(from)
      .filter((index) => this.has(index))
      .map((index) => this.data(index))
  }

  /** An input that all rows share. */
  shared(index: number, what = `input ${index}`): Tensor {
    const value = this.data(index)
    return value.rows === null ? value : meets(`${what} is one for all rows, and is made of them`)
  }

  /** Throws where what a rule did not ask for is not the same for all rows. */
  checkUnread(): void {
    for (const index of this.inputs.keys()) if (this.has(index) && !this.#read.has(index)) this.shared(index)
  }

  /** The elements of an input, which are to be known. None depends on the number of rows. */
  elements(index: number, what: string): readonly Dim[] {
    const elements = this.counts(index, what)
    return elements.some(ofRows)
      ? meets(`${what} ${isPlural(what) ? 'depend' : 'depends'} on the number of rows`)
      : elements
  }

  /** The same, which may depend on the number of rows. */
  counts(index: number, what: string): readonly Dim[] {
    const value = this.raw(index)
    if (value.rows !== null)
      return meets(`${what} ${isPlural(what) ? 'depend' : 'depends'} on what the rows hold`)
    takeSteps(10 * (value.elements?.length ?? 0))
    return value.elements ?? notFollowed(`${what} ${isPlural(what) ? 'are' : 'is'} not known from the graph`)
  }

  /** The same of numbers. */
  numbers(index: number, what: string): readonly number[] {
    const elements = this.elements(index, what)
    return elements.every((element) => typeof element === 'number')
      ? elements
      : notFollowed(`${what} ${isPlural(what) ? 'depend' : 'depends'} on dimensions: ${shownDims(elements)}`)
  }

  /** One number, or what is so where the input is left out. */
  number(index: number, what: string, otherwise: number): number {
    return this.has(index) ? (this.numbers(index, what)[0] ?? otherwise) : otherwise
  }

  hasAttribute(name: string): boolean {
    return this.#attributes.has(name)
  }

  int(name: string, otherwise: number): number {
    return this.#attributes.get(name)?.i ?? otherwise
  }

  float(name: string, otherwise: number): number {
    return this.#attributes.get(name)?.f ?? otherwise
  }

  string(name: string, otherwise: string): string {
    return this.#attributes.get(name)?.s ?? otherwise
  }

  /** `null` for one that is not there. */
  ints(name: string): readonly number[] | null {
    const attribute = this.#attributes.get(name)
    if (attribute === undefined) return null
    return attribute.ints ?? notFollowed(`attribute '${name}' has too many numbers`)
  }

  attribute(name: string): Attribute | null {
    return this.#attributes.get(name) ?? null
  }

  graph(name: string): OnnxGraph {
    return this.#attributes.get(name)?.graph ?? notFollowed(`attribute '${name}' is missing`)
  }

  /** Axes of an attribute up to a version, and of an input from then on; `null` for all. */
  axes(rank: number, sinceInput: number, input = 1): readonly number[] | null {
    const given =
      this.version < sinceInput ? this.ints('axes') : this.has(input) ? this.numbers(input, 'axes') : null
    return given === null ? null : given.map((axis) => axisIn(axis, rank))
  }

  /** The axis of an attribute. */
  axis(rank: number, otherwise: number, name = 'axis'): number {
    return axisIn(this.int(name, otherwise), rank)
  }
}

function isPlural(what: string): boolean {
  return what.endsWith('s') && !what.endsWith('ss')
}

/** Throws where a tensor has another number of dimensions. */
export function checkRank({ shape }: Tensor, rank: number): void {
  if (shape.length !== rank) notFollowed(`an input has ${shape.length} dimensions instead of ${rank}`)
}

export function axisIn(axis: number, rank: number): number {
  const own = axis < 0 ? axis + rank : axis
  if (own < 0 || own >= rank) notFollowed(`axis ${axis} is none of ${rank} dimensions`)
  return own
}

/** Throws where rows lie along one of the axes. */
export function apart({ rows }: Tensor, axes: readonly number[], does: string): void {
  if (rows !== null && axes.includes(rows.axis))
    meets(`it ${does} along dimension ${rows.axis}, which counts the rows`)
}

/** Throws where rows lie along another axis than this. */
export function rowsOnly({ rows }: Tensor, axes: readonly number[], does: string): void {
  if (rows !== null && !axes.includes(rows.axis))
    meets(`it ${does} along dimension ${rows.axis}, which counts the rows`)
}

/** A tensor of the same entries as another in another order, or with some left out or repeated, each in its own row. */
export function moved(
  of: Tensor,
  shape: readonly Dim[],
  rows: Rows | null,
  elements: readonly Dim[] | null = null,
): Tensor {
  if (of.columns !== null) notFollowed('where the numbers of an index go is not followed')
  if (elements === null && countsRows(of)) meets('a value depends on the number of rows')
  return tensor(of.type, shape, { rows, elements, place: of.place, bound: of.bound, nonZero: of.nonZero })
}

/** A tensor like another in shape and rows, with values that are made of each row alone. */
export function like(of: Tensor, type = of.type): Tensor {
  return tensor(type, of.shape, { rows: of.rows })
}

/**
 * The rows of tensors of which one axis each belongs together: all that have rows have them there, in the same way.
 *
 * @param parts `axis` is -1 for a tensor that may have no rows.
 * @returns `null` where none has rows.
 */
export function together(
  parts: readonly { readonly of: Tensor | null; readonly axis: number; readonly what: string }[],
): Omit<Rows, 'axis'> | null {
  let found: Rows | null = null
  for (const { of, axis, what } of parts) {
    const rows = of?.rows ?? null
    if (rows === null) continue
    if (rows.axis !== axis)
      meets(
        axis === -1
          ? `${what} is one for all rows, and is made of them`
          : `${what} has rows along dimension ${rows.axis}, where they do not stay apart`,
      )
    if (found !== null && !sameRows({ ...found, axis }, rows))
      meets('its inputs hold their rows in different orders, as [N * heads] and [heads * N] do')
    found = rows
  }
  if (found === null) return null
  const { outer, inner } = found
  // What has no rows has to be the same for each of them.
  for (const { of, axis, what } of parts) {
    if (of === null || of.rows !== null || axis === -1) continue
    const dim = of.shape[axis] ?? 1
    if (dim !== 1) fixedBeside(what, dim)
  }
  return { outer, inner }
}

/** A number of entries that is the same for any number of rows stands where these are counted. */
function fixedBeside(what: string, dim: Dim): never {
  return typeof dim === 'number'
    ? meets(`${what} has ${dim} entries where the rows are counted, which fit just one number of rows`)
    : notFollowed(`${what} has ${shown(dim)} entries where the rows are counted`)
}

/** Shape and rows of several tensors, each element of which meets those in its place. */
export function broadcast(tensors: readonly Tensor[]): {
  readonly shape: readonly Dim[]
  readonly rows: Rows | null
} {
  const rank = Math.max(...tensors.map(({ shape }) => shape.length))
  const offset = ({ shape }: Tensor) => rank - shape.length
  takeSteps(tensors.length * rank)
  let rows: Rows | null = null
  for (const each of tensors) {
    if (each.rows === null) continue
    const own = { ...each.rows, axis: each.rows.axis + offset(each) }
    if (rows === null) rows = own
    else if (rows.axis !== own.axis)
      meets(
        `rows lie along dimension ${rows.axis} of one input and dimension ${own.axis} of another, so that each meets all`,
      )
    else if (!sameRows(rows, own))
      meets('its inputs hold their rows in different orders, as [N * heads] and [heads * N] do')
  }
  const shape = Array.from({ length: rank }, (_, axis) => {
    const dims = tensors.flatMap((each) => each.shape[axis - offset(each)] ?? [])
    if (axis === rows?.axis) {
      const beside = tensors.find(
        (each) => each.rows === null && (each.shape[axis - offset(each)] ?? 1) !== 1,
      )
      if (beside !== undefined) fixedBeside('one of its inputs', beside.shape[axis - offset(beside)]!)
      return multiply(multiply(rows.outer, rowDim), rows.inner)
    }
    return dims.reduce<Dim>(
      (one, other) =>
        broadcastDims(one, other) ?? notFollowed(`dimensions ${shown(one)} and ${shown(other)} do not fit`),
      1,
    )
  })
  return { shape, rows }
}

/** Whether a place points into the part of a row that is `size` long. */
export function pointsInto({ stride, bound }: Place, size: Dim): boolean {
  return isSame(stride, size) && (bound === 1 || isAtLeast(subtract(size, bound), 0))
}

export function isInteger(type: number): boolean {
  return (
    type === elementType.int64 ||
    type === elementType.int32 ||
    type === elementType.uint8 ||
    type === elementType.int8 ||
    type === elementType.int16 ||
    type === elementType.uint16 ||
    type === elementType.uint32 ||
    type === elementType.uint64
  )
}
