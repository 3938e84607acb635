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
import { dependent, notFollowed } from './not-proved.ts'

/**
 * Computes what is known of an operator's outputs from its inputs. Throws if rows mix, or if that is not
 * known.
 */
export type Rule = (op: Operation) => Value | readonly (Value | null)[]

/**
 * Rules by operator. Operators outside of ONNX's own domain have it as a prefix, as in `com.microsoft:Gelu`.
 */
export type Rules = Readonly<Record<string, Rule>>

/** Follows a subgraph in place of the operation that contains it. */
type RunGraph = (graph: OnnxGraph, inputs: readonly Value[]) => Value[]

/** An operator with its inputs and attributes, as rules use them. */
export class Operation {
  /** Its name without the domain. */
  readonly operator: string
  /** Version of its operator set. */
  readonly version: number
  /** `null` for an omitted one. */
  readonly inputs: readonly (Value | null)[]
  readonly outputCount: number
  readonly runGraph: RunGraph
  /** Unique to the operation: symbols are named after it. */
  readonly label: string
  /** The value of a single output in which rows mix. */
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

  /** An input tensor of any kind, including a shape that depends on the number of rows. */
  raw(index: number): Tensor {
    const value = this.value(index)
    return value?.kind === 'tensor'
      ? value
      : notFollowed(`input ${index} is ${value === null ? 'left out' : 'no tensor'}`)
  }

  /** An input that may contain row positions, as indices do, but not the number of rows. */
  indices(index: number): Tensor {
    const value = this.raw(index)
    return countsRows(value) ? dependsOnCount() : value
  }

  /** An input used as data. Throws if it depends on the number of rows, or on a row's position. */
  data(index: number): Tensor {
    const value = this.indices(index)
    return value.place === null && value.columns === null ? value : dependsOnPlaces()
  }

  optional(index: number): Tensor | null {
    return this.has(index) ? this.data(index) : null
  }

  /** All inputs, without omitted ones. */
  all(from = 0): Tensor[] {
    return [...this.inputs.keys()]
      .slice(from)
      .filter((index) => this.has(index))
      .map((index) => this.data(index))
  }

  /** An input that all rows share. */
  shared(index: number, what = `input ${index}`): Tensor {
    const value = this.data(index)
    return value.rows === null ? value : dependent(`${what} is shared by all rows, but computed from them`)
  }

  /** Throws if an input that the rule did not read is not the same for all rows. */
  checkUnread(): void {
    for (const index of this.inputs.keys()) if (this.has(index) && !this.#read.has(index)) this.shared(index)
  }

  /** The elements of an input. They must be known, and must not depend on the number of rows. */
  elements(index: number, what: string): readonly Dim[] {
    const elements = this.counts(index, what)
    return elements.some(ofRows)
      ? dependent(`${what} ${isPlural(what) ? 'depend' : 'depends'} on the number of rows`)
      : elements
  }

  /** Like {@link elements}, but they may depend on the number of rows. */
  counts(index: number, what: string): readonly Dim[] {
    const value = this.raw(index)
    if (value.rows !== null)
      return dependent(`${what} ${isPlural(what) ? 'depend' : 'depends'} on what the rows hold`)
    takeSteps(10 * (value.elements?.length ?? 0))
    return value.elements ?? notFollowed(`${what} ${isPlural(what) ? 'are' : 'is'} not known from the graph`)
  }

  /** Like {@link elements}, as numbers. */
  numbers(index: number, what: string): readonly number[] {
    const elements = this.elements(index, what)
    return elements.every((element) => typeof element === 'number')
      ? elements
      : notFollowed(`${what} ${isPlural(what) ? 'depend' : 'depends'} on dimensions: ${shownDims(elements)}`)
  }

  /** One number, or a default if the input is omitted. */
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

  /** `null` if the attribute is missing. */
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

  /** Axes from an attribute before version `sinceInput`, and from an input since then; `null` for all. */
  axes(rank: number, sinceInput: number, input = 1): readonly number[] | null {
    const given =
      this.version < sinceInput ? this.ints('axes') : this.has(input) ? this.numbers(input, 'axes') : null
    return given === null ? null : given.map((axis) => axisIn(axis, rank))
  }

  /** The axis in an attribute. */
  axis(rank: number, otherwise: number, name = 'axis'): number {
    return axisIn(this.int(name, otherwise), rank)
  }
}

function isPlural(what: string): boolean {
  return what.endsWith('s') && !what.endsWith('ss')
}

export const ordersDiffer = (): never =>
  dependent('its inputs hold their rows in different orders, as [N * heads] and [heads * N] do')
export const dependsOnCount = (): never => dependent('a value depends on the number of rows')
export const dependsOnPlaces = (): never => dependent('a value depends on the places of rows in the batch')

/** Throws if a tensor has another number of dimensions. */
export function checkRank({ shape }: Tensor, rank: number): void {
  if (shape.length !== rank) notFollowed(`an input has ${shape.length} dimensions instead of ${rank}`)
}

export function axisIn(axis: number, rank: number): number {
  const own = axis < 0 ? axis + rank : axis
  if (own < 0 || own >= rank) notFollowed(`axis ${axis} is not one of ${rank} dimensions`)
  return own
}

/** Throws if rows lie along one of the axes. */
export function apart({ rows }: Tensor, axes: readonly number[], does: string): void {
  if (rows !== null && axes.includes(rows.axis))
    dependent(`it ${does} along dimension ${rows.axis}, which counts the rows`)
}

/** Throws if rows lie along another axis than these. */
export function rowsOnly({ rows }: Tensor, axes: readonly number[], does: string): void {
  if (rows !== null && !axes.includes(rows.axis))
    dependent(`it ${does} along dimension ${rows.axis}, which counts the rows`)
}

/**
 * A tensor with the entries of another one in another order, or with some dropped or repeated, each within
 * its row.
 */
export function moved(
  of: Tensor,
  shape: readonly Dim[],
  rows: Rows | null,
  elements: readonly Dim[] | null = null,
): Tensor {
  if (of.columns !== null) notFollowed('cannot tell where the numbers of an index go')
  if (elements === null && countsRows(of)) dependsOnCount()
  return tensor(of.type, shape, { rows, elements, place: of.place, bound: of.bound, nonZero: of.nonZero })
}

/** The same rule for several operators. */
export function forEach(operators: readonly string[], rule: Rule): Rules {
  return Object.fromEntries(operators.map((operator) => [operator, rule]))
}

/** The rule of an operator that combines entries of its first input along some axes, and keeps its shape. */
export function along(axesOf: (rank: number, op: Operation) => readonly number[], does: string): Rule {
  return (op) => {
    const of = op.data(0)
    apart(of, axesOf(of.shape.length, op), does)
    return like(of)
  }
}

/** The axes from one on up to another. */
export const range = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index)

/** A tensor with the shape and rows of another, whose values are computed per row. */
export function like(of: Tensor, type = of.type): Tensor {
  return tensor(type, of.shape, { rows: of.rows })
}

/**
 * The common rows of tensors, each with one axis that corresponds to the others'. All tensors with rows have
 * them at that axis, in the same way.
 *
 * @param parts `axis` is -1 for a tensor that must not have rows.
 * @returns `null` if no tensor has rows.
 */
export function together(
  parts: readonly { readonly of: Tensor | null; readonly axis: number; readonly what: string }[],
): Omit<Rows, 'axis'> | null {
  let found: Rows | null = null
  for (const { of, axis, what } of parts) {
    const rows = of?.rows ?? null
    if (rows === null) continue
    if (rows.axis !== axis)
      dependent(
        axis === -1
          ? `${what} is shared by all rows, but computed from them`
          : `${what} has rows along dimension ${rows.axis}, where they do not stay apart`,
      )
    if (found !== null && !sameRows({ ...found, axis }, rows)) ordersDiffer()
    found = rows
  }
  if (found === null) return null
  const { outer, inner } = found
  // A tensor without rows must be the same for each row.
  for (const { of, axis, what } of parts) {
    if (of === null || of.rows !== null || axis === -1) continue
    const dim = of.shape[axis] ?? 1
    if (dim !== 1) fixedBeside(what, dim)
  }
  return { outer, inner }
}

/** The common rows of tensors, by name, that have them along their first dimension: all of them, or none. */
export function oneToOne(
  what: string,
  tensors: Readonly<Record<string, Tensor | null>>,
): Omit<Rows, 'axis'> | null {
  const rows = together(Object.entries(tensors).map(([name, of]) => ({ of, axis: 0, what: name })))
  if (rows !== null && Object.values(tensors).some((of) => of !== null && of.rows === null))
    dependent(`${what} are not one to one`)
  return rows
}

/** A fixed number of entries stands where another tensor has its rows. */
function fixedBeside(what: string, dim: Dim): never {
  return typeof dim === 'number'
    ? dependent(`${what} has ${dim} entries where the rows are counted, which fit only one number of rows`)
    : notFollowed(`${what} has ${shown(dim)} entries where the rows are counted`)
}

/** Shape and rows of several tensors that are combined element by element. */
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
      dependent(
        `rows lie along dimension ${rows.axis} of one input and dimension ${own.axis} of another, so each row meets all others`,
      )
    else if (!sameRows(rows, own)) ordersDiffer()
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

const { int8, int16, int32, int64, uint8, uint16, uint32, uint64 } = elementType
const integers: ReadonlySet<number> = new Set([int8, int16, int32, int64, uint8, uint16, uint32, uint64])

export function isInteger(type: number): boolean {
  return integers.has(type)
}
