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
import { meets, notFollowed } from './not-proved.ts'

/** `TensorProto.DataType`, as far as rules ask for it. */
export const elementType = {
  undefined: 0,
  float32: 1,
  uint8: 2,
  int8: 3,
  uint16: 4,
  int16: 5,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
  float64: 11,
  uint32: 12,
  uint64: 13,
  bfloat16: 16,
} as const

/** Where the rows of a tensor are: dimension `axis` is `outer * N * inner` long, as `[steps * N]` or `[N * heads]`; it is `N` where both are 1. */
export interface Rows {
  readonly axis: number
  readonly outer: Dim
  readonly inner: Dim
}

/** Indices into a row's own part: those of row `n` are in `[n * stride, n * stride + bound)`. */
export interface Place {
  readonly stride: Dim
  readonly bound: Dim
}

/** A tensor as far as it is the same for all requests that may share a run, however many there are, and whatever they hold. */
export interface Tensor {
  readonly kind: 'tensor'
  /** One of {@link elementType}; 0 where it is not known. */
  readonly type: number
  readonly shape: readonly Dim[]
  /** `null` for one that is the same in every run: constants, what all rows share, and shapes. */
  readonly rows: Rows | null
  /** Elements of a small one without rows, where they are known. They may depend on the number of rows. */
  readonly elements: readonly Dim[] | null
  /** For whole numbers that depend on the place of a row. */
  readonly place: Place | null
  /** The same for each number of an index tuple (`GatherND`), where these differ. */
  readonly columns: readonly (Place | null)[] | null
  /** For whole numbers from 0 up to it. */
  readonly bound: Dim | null
  /** Whether no element is 0. */
  readonly nonZero: boolean
}

/** A sequence of tensors, or one of maps with an entry per row (as of a classifier). */
export interface List {
  readonly kind: 'list'
  /** Its tensors, where they are known one by one. */
  readonly items: readonly Tensor[] | null
  /** Whether it has an entry for each row. */
  readonly byRow: boolean
}

/** Why nothing more is known of a value: rows meet in it, or it was not followed. */
export interface Fault {
  readonly kind: 'fault'
  readonly verdict: 'meets' | 'unknown'
  /** Of the node at which it began, in the order of the graph; -1 for none. */
  readonly order: number
  readonly node: string | null
  readonly reason: string
  /** Its dimensions, where these are known all the same. */
  readonly shape?: readonly Dim[]
}

export type Value = Tensor | List | Fault

/** Elements beyond which a tensor is not small. */
export const mostElements = 4096

/** Dimensions of a tensor: with more, each node takes long. */
const mostDims = 64

/** To be asked before something is computed for each of them. */
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
  if (!shape.every(isWhole)) notFollowed('a length is no whole number')
  const isLong = elements !== null && elements.length > mostElements
  if (isLong && elements.some(ofRows)) meets('a value depends on the number of rows')
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

/** The shape with the dimension that holds rows set to what it is. */
export function extent({ outer, inner }: Rows): Dim {
  return multiply(multiply(outer, rowDim), inner)
}

/** Elements before a row's, from one end of the dimensions to the other, and after it: what no reshaping changes. */
export function before(shape: readonly Dim[], { axis, outer }: Rows): Dim {
  return multiply(product(shape.slice(0, axis)), outer)
}

export function after(shape: readonly Dim[], { axis, inner }: Rows): Dim {
  return multiply(product(shape.slice(axis + 1)), inner)
}

/** Where rows are in a shape that has one dimension that is a multiple of their number, and no other that depends on it. */
export function findRows(shape: readonly Dim[]): Rows | null {
  const axis = shape.findIndex(ofRows)
  if (axis === -1 || shape.some((dim, other) => other !== axis && ofRows(dim))) return null
  const inner = perRow(shape[axis]!)
  return inner === null ? null : { axis, outer: 1, inner }
}

export function sameRows(a: Rows, b: Rows): boolean {
  return a.axis === b.axis && isSame(a.outer, b.outer) && isSame(a.inner, b.inner)
}

/** Whether it depends on how many rows there are, without having rows: as a shape does. */
export function countsRows({ elements, rows }: Tensor): boolean {
  return rows === null && elements !== null && elements.some(ofRows)
}

/** Whether two values depend in the same way on the places of rows. */
export function samePlace(a: Place | null, b: Place | null): boolean {
  return a === b || (a !== null && b !== null && isSame(a.stride, b.stride) && isSame(a.bound, b.bound))
}

/** What two branches, or two turns of a loop, have in common. */
export function either(a: Value, b: Value, name: string): Value {
  if (a.kind === 'fault') return a.verdict === 'meets' || b.kind !== 'fault' ? a : b
  if (b.kind === 'fault') return b
  const differ = (reason: string): Fault => ({
    kind: 'fault',
    verdict: 'unknown',
    order: -1,
    node: null,
    reason,
  })
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
