import {
  areSame,
  isSame,
  isWhole,
  lengthOf,
  multiply,
  ofRows,
  perRow,
  product,
  rowDim,
  takeSteps,
  type Dim,
} from './dims.ts'
import { dependent, notFollowed } from './not-proved.ts'

/** The values of `TensorProto.DataType` that rules use. */
export const elementType = {
  undefined: 0, float32: 1, uint8: 2, int8: 3, uint16: 4, int16: 5, int32: 6, int64: 7, string: 8, bool: 9,
  float16: 10, float64: 11, uint32: 12, uint64: 13, bfloat16: 16,
} as const // prettier-ignore

/**
 * Where the rows of a tensor are: dimension `axis` is `outer * N * inner` long, as in `[steps * N]` or `[N *
 * heads]`; it is `N` if both are 1.
 */
export interface Rows {
  readonly axis: number
  readonly outer: Dim
  readonly inner: Dim
}

/** Indices that point into a row's own part: those of row `n` are in `[n * stride, n * stride + bound)`. */
export interface Place {
  readonly stride: Dim
  readonly bound: Dim
}

/** What holds for a tensor in every run, whatever the number and content of its requests. */
export interface Tensor {
  readonly kind: 'tensor'
  /** One of {@link elementType}; 0 if unknown. */
  readonly type: number
  readonly shape: readonly Dim[]
  /** `null` for a tensor that is the same in every run: constants, inputs shared by all rows, and shapes. */
  readonly rows: Rows | null
  /** Elements of a small tensor without rows, if known. They may depend on the number of rows. */
  readonly elements: readonly Dim[] | null
  /** For integers that depend on a row's position. */
  readonly place: Place | null
  /** The places of each component of an index tuple (`GatherND`), if they differ. */
  readonly columns: readonly (Place | null)[] | null
  /** For integers from 0 up to this bound. */
  readonly bound: Dim | null
  /** Whether no element is 0. */
  readonly nonZero: boolean
}

/** A sequence of tensors, or one of maps with an entry per row (as a classifier returns). */
export interface List {
  readonly kind: 'list'
  /** Its tensors, if they are known one by one. */
  readonly items: readonly Tensor[] | null
  /** Whether it has an entry for each row. */
  readonly byRow: boolean
}

/** Why nothing more is known of a value: rows mix in it, or it was not followed. */
export interface Fault {
  readonly kind: 'fault'
  readonly verdict: 'dependent' | 'unknown'
  /** Order of the node at which it began, in the graph; -1 for none. */
  readonly order: number
  readonly node: string | null
  readonly reason: string
  /** The value's dimensions, if they are known all the same. */
  readonly shape?: readonly Dim[]
}

export type Value = Tensor | List | Fault

/** A fault that began at no node. */
export function faultWithoutNode(verdict: Fault['verdict'], reason: string, order = -1): Fault {
  return { kind: 'fault', verdict, order, node: null, reason }
}

/** Most elements of a small tensor. */
export const mostElements = 4096

/** Most dimensions of a tensor; more would make each node slow. */
const mostDims = 64

/** Call this before computing something for each dimension. */
export function checkDims(count: number): void {
  if (count > mostDims) notFollowed(`it has ${count} dimensions`)
}

type Facts = Partial<Pick<Tensor, 'rows' | 'elements' | 'place' | 'columns' | 'bound' | 'nonZero'>>

export function tensor(
  type: number,
  shape: readonly Dim[],
  { rows = null, elements = null, place = null, columns = null, bound = null, nonZero = false }: Facts = {},
): Tensor {
  checkDims(shape.length)
  takeSteps(4 + shape.length)
  if (!shape.every(isWhole)) notFollowed('a length is not a whole number')
  const isLong = elements !== null && elements.length > mostElements
  if (isLong && elements.some(ofRows)) dependent('a value depends on the number of rows')
  return {
    kind: 'tensor',
    type,
    shape,
    rows,
    elements: isLong ? null : elements,
    place,
    columns,
    bound,
    nonZero,
  }
}

/** Rows that fill a dimension. */
export function rowsAt(axis: number): Rows {
  return { axis, outer: 1, inner: 1 }
}

/** The length of the dimension with rows. */
export function extent({ outer, inner }: Rows): Dim {
  return multiply(multiply(outer, rowDim), inner)
}

/** The product of all dimensions before the rows; {@link after}: of those after them. No reshape changes either. */
export function before(shape: readonly Dim[], { axis, outer }: Rows): Dim {
  return multiply(product(shape.slice(0, axis)), outer)
}

export function after(shape: readonly Dim[], { axis, inner }: Rows): Dim {
  return multiply(product(shape.slice(axis + 1)), inner)
}

/** The rows of a shape in which exactly one dimension depends on the number of rows, as a multiple of it. */
export function findRows(shape: readonly Dim[]): Rows | null {
  const axis = shape.findIndex(ofRows)
  if (axis === -1 || shape.some((dim, other) => other !== axis && ofRows(dim))) return null
  const inner = perRow(shape[axis]!)
  return inner === null ? null : { axis, outer: 1, inner }
}

export function sameRows(a: Rows, b: Rows): boolean {
  return a.axis === b.axis && isSame(a.outer, b.outer) && isSame(a.inner, b.inner)
}

/** Whether its elements depend on the number of rows although it has no rows, as a shape does. */
export function countsRows({ elements, rows }: Tensor): boolean {
  return rows === null && elements !== null && elements.some(ofRows)
}

/** Whether two values depend in the same way on rows' positions. */
function samePlace(a: Place | null, b: Place | null): boolean {
  return a === b || (a !== null && b !== null && isSame(a.stride, b.stride) && isSame(a.bound, b.bound))
}

/** What holds for a value from either of two branches, or of two turns of a loop. */
export function either(a: Value, b: Value, name: string): Value {
  if (a.kind === 'fault') return a.verdict === 'dependent' || b.kind !== 'fault' ? a : b
  if (b.kind === 'fault') return b
  const differ = (reason: string) => faultWithoutNode('unknown', reason)
  if (a.kind === 'list' || b.kind === 'list') {
    if (a.kind !== 'list' || b.kind !== 'list')
      return differ('it is a sequence in one branch, and a tensor in the other')
    if (a.byRow !== b.byRow || (a.items?.length ?? -1) !== (b.items?.length ?? -1))
      return differ('branches give sequences that differ')
    if (a.items === null) return a
    const items = a.items.map((item, index) => either(item, b.items![index]!, `${name}[${index}]`))
    return items.find((item): item is Fault => item.kind === 'fault') ?? { ...a, items: items as Tensor[] }
  }
  if (a.shape.length !== b.shape.length)
    return differ('branches give tensors with different numbers of dimensions')
  if (countsRows(a) !== countsRows(b) || (countsRows(a) && !areSame(a.elements!, b.elements!)))
    return differ('branches differ in what depends on the number of rows')
  if (a.rows !== null && b.rows !== null && !sameRows(a.rows, b.rows))
    return differ('rows lie elsewhere in one branch than in the other')
  if ((a.rows === null) !== (b.rows === null)) return differ('one branch has rows, and the other has none')
  const shape = a.shape.map((dim, axis) =>
    isSame(dim, b.shape[axis]!) ? dim : lengthOf(`if ${name} ${axis}`, [dim, b.shape[axis]!]),
  )
  if (!samePlace(a.place, b.place) || a.columns !== b.columns)
    return differ('branches differ in what depends on the place of a row')
  return {
    ...a,
    type: a.type === b.type ? a.type : 0,
    shape,
    elements:
      a.elements !== null && b.elements !== null && areSame(a.elements, b.elements) ? a.elements : null,
    bound: a.bound !== null && b.bound !== null && isSame(a.bound, b.bound) ? a.bound : null,
    nonZero: a.nonZero && b.nonZero,
  }
}
