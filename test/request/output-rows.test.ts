import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  divideEntries,
  entriesOf,
  indexColumn,
  shiftRows,
  type Entries,
} from '../../src/request/output-rows.ts'
import { joinTensors } from '../../src/request/split.ts'
import { fromSmallFloat, isSmallFloat, toSmallFloat } from '../../src/tensor/small-floats.ts'
import { storageOf, type ElementType } from '../../src/tensor/tensor.ts'
import type { OutputRows } from '../../src/tensor/metadata.ts'
import { repetitions } from '../support/full.ts'

const types = [
  'int8',
  'uint8',
  'int16',
  'uint16',
  'int32',
  'uint32',
  'int64',
  'uint64',
  'float16',
  'bfloat16',
  'float32',
  'float64',
] as const

/** Numbers as a tensor of a type. */
function tensorOf(type: ElementType, dims: readonly number[], numbers: readonly number[]): Entries {
  const stored = numbers.map((value) =>
    isSmallFloat(type)
      ? toSmallFloat(type, value)
      : type.endsWith('64') && type !== 'float64'
        ? BigInt(value)
        : value,
  )
  return { type, dims, data: (storageOf(type) as unknown as typeof Float64Array).from(stored as number[]) }
}

function numbersOf({ type, data }: Entries): number[] {
  return Array.from(data as ArrayLike<number | bigint>, (value) =>
    isSmallFloat(type) ? fromSmallFloat(type, value as number) : Number(value),
  )
}

/** Rows of each request, and by entry the row that it belongs to. */
const batches = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 8 }).chain((rows) =>
  fc.record({
    rows: fc.constant(rows),
    entries: fc.array(fc.nat(rows.reduce((sum, count) => sum + count, 0) - 1), { maxLength: 40 }),
  }),
)

const firstRowOf = (rows: readonly number[], request: number) =>
  rows.slice(0, request).reduce((sum, count) => sum + count, 0)
const output = (name: string, rows?: OutputRows) => ({
  name,
  type: 'float32' as const,
  shape: ['M', 2],
  ...(rows && { rows }),
})

describe('entries of a batch', () => {
  it('come to the request whose row their index names, in their order and with its own numbers, and make the batch again when they are joined', () => {
    fc.assert(
      fc.property(
        batches,
        fc.constantFrom(...types),
        fc.nat(1),
        fc.boolean(),
        ({ rows, entries }, type, column, isColumn) => {
          // An entry is its place and the row that it belongs to, which stands in one of two columns or by itself.
          const width = isColumn ? 2 : 1
          const at = isColumn ? column : 0
          const batch = tensorOf(
            type,
            isColumn ? [entries.length, 2] : [entries.length],
            entries.flatMap((row, entry) =>
              isColumn ? (column === 0 ? [row, entry] : [entry, row]) : [row],
            ),
          )
          const values = tensorOf('int32', [entries.length, 1], [...entries.keys()])
          const outputs = [
            output('index', { index: at }),
            output('values', { index: at, of: 'index' }),
            output('plain'),
          ]
          const divisions = divideEntries(outputs, rows, (index) => [batch, values, null][index]!)
          expect(divisions[2]).toBeNull()
          const parts = rows.map((count, request) => {
            const [from, own] = [firstRowOf(rows, request), entriesOf(batch, divisions[0]!, request)]
            shiftRows(own, indexColumn(outputs[0]!.rows)!, -from)
            const expected = [...entries.entries()].filter(([, row]) => row >= from && row < from + count)
            expect(own.dims).toEqual(isColumn ? [expected.length, 2] : [expected.length])
            expect(numbersOf(own).filter((_, index) => index % width === at)).toEqual(
              expected.map(([, row]) => row - from),
            )
            expect(numbersOf(entriesOf(values, divisions[1]!, request))).toEqual(
              expected.map(([entry]) => entry),
            )
            return own
          })
          const joined = joinTensors(parts, rows, { axis: 0, column: at })
          const inOrder = [...entries.entries()]
            .map(([entry, row]) => ({
              entry,
              row,
              request: rows.findIndex((_, request) => row < firstRowOf(rows, request + 1)),
            }))
            .sort((a, b) => a.request - b.request)
          expect(numbersOf(joined).filter((_, index) => index % width === at)).toEqual(
            inOrder.map(({ row }) => row),
          )
        },
      ),
      { numRuns: repetitions(500, 100) },
    )
  })

  it('come to the request by counts', () => {
    const counted = fc.array(fc.array(fc.nat(5), { minLength: 1, maxLength: 4 }), {
      minLength: 1,
      maxLength: 8,
    })
    fc.assert(
      fc.property(counted, fc.constantFrom(...types), fc.boolean(), (counts, type, isColumn) => {
        const all = counts.flat()
        const total = all.reduce((sum, count) => sum + count, 0)
        const values = tensorOf(
          'float32',
          [total, 2],
          Array.from({ length: 2 * total }, (_, index) => index),
        )
        const outputs = [output('n'), output('values', { counts: 'n' })]
        const divisions = divideEntries(
          outputs,
          counts.map((own) => own.length),
          (index) => [tensorOf(type, isColumn ? [all.length, 1] : [all.length], all), values][index]!,
        )
        let next = 0
        for (const [request, own] of counts.entries()) {
          const entries = own.reduce((sum, count) => sum + count, 0)
          const part = entriesOf(values, divisions[1]!, request)
          expect([part.dims, numbersOf(part)]).toEqual([
            [entries, 2],
            Array.from({ length: 2 * entries }, (_, index) => 2 * next + index),
          ])
          next += entries
        }
      }),
      { numRuns: repetitions(500, 100) },
    )
  })

  it('are never divided where one of them belongs to no row, or counts do not add up', () => {
    const strange = fc.oneof(
      fc.integer({ max: -1 }),
      fc.constantFrom(NaN, Infinity, -Infinity, 0.5, 1e30),
      fc.integer({ min: 40 }),
    )
    fc.assert(
      fc.property(batches, strange, fc.nat(), ({ rows, entries }, number, place) => {
        const all = entries.toSpliced(place % (entries.length + 1), 0, number)
        const outputs = [output('index', { index: 0 })]
        expect(() => divideEntries(outputs, rows, () => tensorOf('float64', [all.length], all))).toThrow(
          /^output 'index' has .* in column 0 of entry \d+, where the number of a row from 0 to \d+ was expected/,
        )
        const counts = Array.from({ length: rows.reduce((sum, count) => sum + count, 0) }, (_, row) =>
          row === 0 ? number : 1,
        )
        const values = tensorOf(
          'float32',
          [counts.length, 1],
          counts.map(() => 0),
        )
        expect(() =>
          divideEntries(
            [output('n'), output('values', { counts: 'n' })],
            rows,
            (index) => [tensorOf('float64', [counts.length], counts), values][index]!,
          ),
        ).toThrow(/^output '(n' has .* for row 0|values' has \d+ entries, where)/)
      }),
      { numRuns: repetitions(500, 100) },
    )
  })

  it('may be text, of which nothing is copied but the entries', () => {
    const index = tensorOf('int32', [3], [1, 0, 1])
    const divisions = divideEntries(
      [output('index', { index: 0 }), output('names', { index: 0, of: 'index' })],
      [1, 1],
      (at) => [index, { type: 'string' as const, dims: [3, 2], data: ['a', 'b', 'c', 'd', 'e', 'f'] }][at]!,
    )
    expect(
      [0, 1].map((request) =>
        entriesOf(
          { type: 'string', dims: [3, 2], data: ['a', 'b', 'c', 'd', 'e', 'f'] },
          divisions[1]!,
          request,
        ),
      ),
    ).toEqual([
      { type: 'string', dims: [1, 2], data: ['c', 'd'] },
      { type: 'string', dims: [2, 2], data: ['a', 'b', 'e', 'f'] },
    ])
  })

  it.each([
    ['a scalar', [], /dims \[\], where a first dimension/],
    [
      'entries of three dimensions',
      [1, 1, 1],
      /dims \[1, 1, 1\], where a list of entries with a column 0 was expected/,
    ],
    ['entries without columns', [1, 0], /with a column 0/],
  ])('are not looked for in %s', (_, dims, message) => {
    expect(() =>
      divideEntries([output('index', { index: 0 })], [1], () => tensorOf('float32', dims, [0])),
    ).toThrow(message)
  })

  it('are as many in an output as in the one that says whose they are', () => {
    const read = (index: number) =>
      tensorOf('int32', index === 0 ? [2] : [3], [0, 0, 0].slice(index === 0 ? 1 : 0))
    expect(() =>
      divideEntries([output('index', { index: 0 }), output('boxes', { index: 0, of: 'index' })], [1], read),
    ).toThrow("output 'boxes' has 3 entries, where 2, as many as 'index' has, was expected")
  })
})
