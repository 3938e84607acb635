import { notFollowed } from './not-proved.ts'

/**
 * A dimension, or an element of a shape: a number, or a polynomial in symbols, one of which is the number of
 * rows. Equal polynomials have equal keys. Other expressions (a quotient with a remainder, a minimum) become
 * a symbol named after the expression.
 */
export type Dim = number | Polynomial

/** A symbol: it has one value in each run. */
interface Unknown {
  readonly name: string
  /** Whether its value depends on the number of rows. */
  readonly ofRows: boolean
  /**
   * Whether it is a length of a request's input, or computed from such lengths. It may differ in other
   * requests.
   */
  readonly ofLengths: boolean
  /** Lower bound, next to the upper bound. */
  readonly least: number
  readonly most: number
  readonly isWhole: boolean
  /** If it is a minimum: the two dimensions. */
  readonly minimumOf?: readonly Dim[]
  /** If it is a rounded-down quotient: the dimension and the divisor. */
  readonly floorOf?: { readonly of: Dim; readonly by: number }
}

/** A coefficient and its factors, in order of their names. */
interface Term {
  readonly coefficient: number
  readonly factors: readonly Unknown[]
}

/**
 * Steps left for the running proof. A character of a dimension's key costs four steps; elements and nodes
 * cost some.
 */
let stepsLeft = Infinity

/**
 * Throws once the proof has used all of its steps, which are about as many as fit into some tenths of a
 * second.
 */
export function takeSteps(steps: number): void {
  if ((stepsLeft -= steps) < 0) throw new TooManySteps()
}

/** A proof has used all of its steps. */
export class TooManySteps extends Error {
  constructor() {
    super('it takes too many steps')
  }
}

/** Runs a proof with a limit of steps. */
export function withinSteps<Result>(steps: number, run: () => Result): Result {
  stepsLeft = steps
  try {
    return run()
  } finally {
    stepsLeft = Infinity
  }
}

/** A sum of terms, at least one of which has a factor. */
class Polynomial {
  readonly key: string
  readonly terms: readonly Term[]
  readonly ofRows: boolean
  #range: Range | null = null

  constructor(terms: readonly Term[]) {
    this.terms = terms
    this.key = terms
      .map(({ coefficient, factors }) => [coefficient, ...factors.map(({ name }) => name)].join('*'))
      .join(' + ')
    this.ofRows = terms.some(({ factors }) => factors.some(({ ofRows }) => ofRows))
    takeSteps(4 * this.key.length)
  }

  get range(): Range {
    return (this.#range ??= this.terms
      .map(rangeOfTerm)
      .reduce((one, other) => ({ least: one.least + other.least, most: one.most + other.most })))
  }
}

/** The range of a value, for all values of its symbols. */
export interface Range {
  readonly least: number
  readonly most: number
}

/** The range of an unknown value. */
export const anything: Range = { least: -Infinity, most: Infinity }

function rangeOfTerm({ coefficient, factors }: Term): Range {
  return factors.reduce(times, { least: coefficient, most: coefficient })
}

function times(one: Range, other: Range): Range {
  const ends = [one.least, one.most].flatMap((a) =>
    [other.least, other.most].map((b) => (a === 0 || b === 0 ? 0 : a * b)),
  )
  return { least: Math.min(...ends), most: Math.max(...ends) }
}

/** The proof holds up to this number of rows: with more, 32-bit integers may overflow. */
export const mostRows = 2 ** 16
/** The proof holds for lengths of a request from 1 to this, unless they are given as numbers. */
export const mostLength = 2 ** 20
/** Longest dimension of a tensor that fits in memory. */
const mostInMemory = 2 ** 40

/** Names from a file are quoted, so that none can equal this one, or the name of an expression. */
const rowCount: Unknown = {
  name: 'N',
  ofRows: true,
  ofLengths: false,
  least: 1,
  most: mostRows,
  isWhole: true,
}
/** The number of rows of a run: from 1 to {@link mostRows}. */
export const rowDim: Dim = new Polynomial([{ coefficient: 1, factors: [rowCount] }])

/**
 * A length of which only two facts are known: it is the same in all requests that may share a run, and it is
 * from 1 to {@link mostLength}.
 */
export function named(name: string): Dim {
  return symbol({
    name: JSON.stringify(name),
    ofRows: false,
    ofLengths: true,
    least: 1,
    most: mostLength,
    isWhole: true,
  })
}

/** The value of a function that is no polynomial. It is the same wherever the arguments are the same. */
export function opaque(what: string, of: readonly Dim[], range: Range, more: Partial<Unknown> = {}): Dim {
  return symbol({
    name: `${what}(${of.map(keyOf).join(', ')})`,
    ofRows: of.some(ofRows),
    ofLengths: false,
    isWhole: of.every(isWhole),
    ...range,
    ...more,
  })
}

/** A length of a tensor, or a number of loop turns, with the bounds of such. */
export function lengthOf(what: string, of: readonly Dim[] = []): Dim {
  return opaque(what, of, { least: 0, most: mostInMemory }, { isWhole: true })
}

/** Longest name, in characters; longer ones would take too much time. */
const longestName = 4000
/** Most factors of a term. */
const mostFactors = 32
/** Most terms of a sum. */
const mostTerms = 64

function symbol(unknown: Unknown): Dim {
  if (unknown.name.length > longestName) notFollowed('a dimension is computed in too many steps')
  return new Polynomial([{ coefficient: 1, factors: [unknown] }])
}

export function ofRows(dim: Dim): boolean {
  return typeof dim !== 'number' && dim.ofRows
}

/** Whether it depends on lengths of requests other than the number of rows. */
export function ofLengths(dim: Dim): boolean {
  return (
    typeof dim !== 'number' && dim.terms.some(({ factors }) => factors.some((factor) => factor.ofLengths))
  )
}

/** A dimension as text, for messages. */
export function shown(dim: Dim): string {
  return typeof dim === 'number'
    ? String(dim)
    : dim.key.replaceAll(/(^|\+ |\(|, )1\*/g, '$1').replaceAll('"', '')
}

export function shownDims(dims: readonly Dim[]): string {
  return `[${dims.map(shown).join(', ')}]`
}

export function isSame(a: Dim, b: Dim): boolean {
  if (typeof a === 'number' || typeof b === 'number' || a === b) return a === b
  takeSteps(1 + (a.key.length >> 4))
  return a.key === b.key
}

export function areSame(a: readonly Dim[], b: readonly Dim[]): boolean {
  return a.length === b.length && a.every((dim, index) => isSame(dim, b[index]!))
}

const termsOf = (dim: Dim): readonly Term[] =>
  typeof dim === 'number' ? (dim === 0 ? [] : [{ coefficient: dim, factors: [] }]) : dim.terms
const factorsOf = ({ factors }: Term): string => factors.map(({ name }) => name).join('*')

const keyOf = (dim: Dim): string => (typeof dim === 'number' ? String(dim) : dim.key)

/** Merges terms with equal factors. */
function sumOf(terms: readonly Term[]): Dim {
  const byKey = new Map<string, Term>()
  for (const term of terms) {
    const key = factorsOf(term)
    byKey.set(key, {
      coefficient: exact(term.coefficient + (byKey.get(key)?.coefficient ?? 0)),
      factors: term.factors,
    })
  }
  const left = [...byKey]
    .filter(([, { coefficient }]) => coefficient !== 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  if (left.length === 0) return 0
  return left.length === 1 && left[0]![0] === ''
    ? left[0]![1].coefficient
    : new Polynomial(left.map(([, term]) => term))
}

/** Larger integers would be rounded in sums and products. */
function exact(coefficient: number): number {
  return Math.abs(coefficient) < Number.MAX_SAFE_INTEGER
    ? coefficient
    : notFollowed('a dimension is computed with numbers that are too large')
}

export function add(a: Dim, b: Dim): Dim {
  return typeof a === 'number' && typeof b === 'number' ? a + b : sumOf([...termsOf(a), ...termsOf(b)])
}

export function subtract(a: Dim, b: Dim): Dim {
  return isSame(a, b) ? 0 : add(a, multiply(b, -1))
}

export function multiply(a: Dim, b: Dim): Dim {
  if (typeof a === 'number' && typeof b === 'number') return a * b
  if (a === 1) return b
  if (b === 1) return a
  if (termsOf(a).length * termsOf(b).length > mostTerms)
    notFollowed('a dimension is computed in too many steps')
  return sumOf(termsOf(a).flatMap((left) => termsOf(b).map((right) => timesTerm(left, right))))
}

function timesTerm(left: Term, right: Term): Term {
  if (left.factors.length + right.factors.length > mostFactors)
    notFollowed('a dimension is computed in too many steps')
  return {
    coefficient: exact(left.coefficient * right.coefficient),
    factors: [...left.factors, ...right.factors].sort((a, b) =>
      a.name < b.name ? -1 : a.name > b.name ? 1 : 0,
    ),
  }
}

export function product(dims: readonly Dim[]): Dim {
  return dims.reduce<Dim>(multiply, 1)
}

/** Number of elements of a tensor all of whose dimensions are numbers. */
export function countOf(dims: readonly number[]): number {
  return dims.reduce((count, dim) => count * dim, 1)
}

export const areNumbers = (dims: readonly Dim[]): dims is readonly number[] =>
  dims.every((dim) => typeof dim === 'number')

/** The quotient, if it is a polynomial with integer coefficients; otherwise `null`. */
export function divide(a: Dim, b: Dim): Dim | null {
  if (b === 1) return a
  if (b === 0) return null
  if (isSame(a, b)) return 1
  if (typeof a === 'number' && typeof b === 'number') return a % b === 0 ? a / b : null
  const divisor = termsOf(b)
  const leading = divisor.at(-1)!
  let rest = a
  const quotient: Term[] = []
  // Long division by the last term. If each step removes the term it should, there are at most as many steps
  // as terms.
  for (let step = 0; step < 16 && rest !== 0; step++) {
    const term = quotientOf(termsOf(rest).at(-1)!, leading)
    if (term === null) return null
    quotient.push(term)
    rest = subtract(rest, sumOf(divisor.map((each) => timesTerm(each, term))))
  }
  return rest === 0 ? sumOf(quotient) : null
}

function quotientOf(term: Term, by: Term): Term | null {
  const coefficient = term.coefficient / by.coefficient
  if (!Number.isInteger(coefficient)) return null
  const factors = [...term.factors]
  for (const { name } of by.factors) {
    const at = factors.findIndex((factor) => factor.name === name)
    if (at === -1) return null
    factors.splice(at, 1)
  }
  return { coefficient, factors }
}

/** The factor by which a dimension is a multiple of the number of rows; `null` if it is no multiple. */
export function perRow(dim: Dim): Dim | null {
  const quotient = ofRows(dim) ? divide(dim, rowDim) : null
  return quotient === null || ofRows(quotient) ? null : quotient
}

export function rangeOf(dim: Dim): Range {
  return typeof dim === 'number' ? { least: dim, most: dim } : dim.range
}

export function isAtLeast(dim: Dim, least: number): boolean {
  return rangeOf(dim).least >= least
}

export function minimum(a: Dim, b: Dim): Dim {
  if (isAtLeast(subtract(b, a), 0)) return a
  if (isAtLeast(subtract(a, b), 0)) return b
  const of = inOrder(a, b)
  const [one, other] = [rangeOf(a), rangeOf(b)]
  const range = { least: Math.min(one.least, other.least), most: Math.min(one.most, other.most) }
  return opaque('min', of, range, { ofLengths: of.some(ofLengths), minimumOf: of })
}

export function maximum(a: Dim, b: Dim): Dim {
  if (isAtLeast(subtract(b, a), 0)) return b
  if (isAtLeast(subtract(a, b), 0)) return a
  const [one, other] = [rangeOf(a), rangeOf(b)]
  return opaque('max', inOrder(a, b), {
    least: Math.max(one.least, other.least),
    most: Math.max(one.most, other.most),
  })
}

function inOrder(a: Dim, b: Dim): readonly Dim[] {
  return keyOf(a) < keyOf(b) ? [a, b] : [b, a]
}

/**
 * The quotient, rounded down. Multiples of the divisor are taken out first, so that equal values have equal
 * forms.
 */
export function floorOf(a: Dim, b = 1): Dim {
  if (typeof a === 'number') return Math.floor(a / b)
  if (!isWhole(a) || !Number.isInteger(b) || b <= 0)
    return opaque(
      'floor',
      [a, b],
      b > 0 ? { least: Math.floor(a.range.least / b), most: Math.floor(a.range.most / b) } : anything,
      { isWhole: true },
    )
  const parts = a.terms.map(({ coefficient, factors }) => ({
    factors,
    whole: Math.floor(coefficient / b),
    rest: ((coefficient % b) + b) % b,
  }))
  const rest = sumOf(parts.map(({ factors, rest: coefficient }) => ({ coefficient, factors })))
  const whole = sumOf(parts.map(({ factors, whole: coefficient }) => ({ coefficient, factors })))
  return add(whole, typeof rest === 'number' ? Math.floor(rest / b) : quotientRoundedDown(rest, b))
}

function quotientRoundedDown(of: Polynomial, by: number): Dim {
  const inner = loneSymbol(of)?.floorOf
  if (inner !== undefined) return floorOf(inner.of, inner.by * by) // two divisions equal one by the product
  const range = { least: Math.floor(of.range.least / by), most: Math.floor(of.range.most / by) }
  return opaque('floor', [of, by], range, { ofLengths: ofLengths(of), isWhole: true, floorOf: { of, by } })
}

/** Whether it is an integer for all values of its symbols. */
export function isWhole(dim: Dim): boolean {
  return typeof dim === 'number'
    ? Number.isInteger(dim)
    : dim.terms.every(
        ({ coefficient, factors }) =>
          Number.isInteger(coefficient) && factors.every((factor) => factor.isWhole),
      )
}

/** The dimension that results from broadcasting two; `null` if they do not fit. */
export function broadcastDims(a: Dim, b: Dim): Dim | null {
  if (isSame(a, b) || b === 1) return a
  if (a === 1) return b
  if (typeof a === 'number' && typeof b === 'number') return null
  // Only the same number or 1 can be broadcast with a number above 1.
  if (typeof a === 'number') return a
  if (typeof b === 'number') return b
  // If a minimum fits one of its two dimensions, it equals that one, or is 1; or it is 0, and then a 1
  // becomes 0.
  if (isMinimumOf(b, a) && isAtLeast(b, 1)) return a
  if (isMinimumOf(a, b) && isAtLeast(a, 1)) return b
  const least = Math.max(0, Math.min(rangeOf(a).least, rangeOf(b).least))
  return opaque('fitted', inOrder(a, b), { least, most: Math.max(rangeOf(a).most, rangeOf(b).most) })
}

function isMinimumOf(dim: Polynomial, other: Polynomial): boolean {
  return loneSymbol(dim)?.minimumOf?.some((each) => isSame(each, other)) === true
}

/** The symbol that a dimension consists of; `null` if it is a sum, a product or a multiple. */
function loneSymbol({ terms }: Polynomial): Unknown | null {
  const { coefficient, factors } = terms[0]!
  return terms.length === 1 && coefficient === 1 && factors.length === 1 ? factors[0]! : null
}
