import { describe, expect, it } from 'vitest'
import { placeInBlock } from '../../src/run/in-place.ts'
import { RowBlock, type LeasedRows, RowBlocks } from '../../src/native/row-blocks.ts'
import type { StagingBuffer } from '../../src/native/staging-pool.ts'
import type { InferRequest } from '../../src/request/infer-request.ts'
import { FakeClock } from '../fake-clock.ts'
import { mulberry32 } from '../models/random.ts'

const released: StagingBuffer[] = []
const bufferOf = (): StagingBuffer => {
  const bytes = new ArrayBuffer(64)
  const buffer = {
    kind: 'native',
    bytes,
    byteLength: 64,
    largeFromBytes: Infinity,
    memory: { kind: 'native', leaseId: 1 },
  } as const
  const own: StagingBuffer = { ...buffer, release: () => void released.push(own) }
  return own
}
const blockOf = (rows: number, device: number | null = null) =>
  new RowBlock({ rows, byteLength: 64, inputs: [], outputs: [] }, bufferOf(), device)

/** A request of rows of a block that it has taken, or of other data. */
function requestOf(rows: number, block: RowBlock | null, whole = false): InferRequest {
  const leased: LeasedRows | null = block && { block, first: block.take(rows), rows, settled: () => {} }
  return { rows, leased, whole } as unknown as InferRequest
}

const rowsOf = (requests: readonly InferRequest[]) => requests.reduce((sum, { rows }) => sum + rows, 0)
const place = (...requests: InferRequest[]) => placeInBlock(requests, rowsOf(requests), null)

describe('a batch is run in a block', () => {
  it('where all of its rows lie side by side, in the order of the rows', () => {
    const block = blockOf(8)
    const [a, b, c] = [requestOf(1, block), requestOf(2, block), requestOf(1, block)]
    expect(place(c, a, b)).toMatchObject({ block, first: 0, rows: 4, requests: [a, b, c], moved: [] })
    expect(place(c, b)).toMatchObject({ first: 1, requests: [b, c] })
  })

  it('with the others in gaps, where at least half of its rows are', () => {
    const block = blockOf(8)
    const [a, gap, b] = [requestOf(1, block), requestOf(1, block), requestOf(1, block)]
    block.drop(gap.leased!.first, 1)
    const other = requestOf(1, null)
    expect(place(other, b, a)).toMatchObject({
      first: 0,
      requests: [a, other, b],
      moved: [{ request: other, row: 1 }],
    })
    expect(place(a, other)).toMatchObject({ rows: 2, moved: [{ request: other }] })
    expect(place(a, other, requestOf(1, null))).toBeNull()
  })

  it('and in none where somebody else holds a row between, or one of its own', () => {
    const block = blockOf(3)
    const [a, , b] = [requestOf(1, block), requestOf(1, block), requestOf(1, block)] // which is written still
    expect(place(a, b)).toBeNull()
    expect(place(a)).not.toBeNull()
    block.hold(0, 1) // a run that could not be stopped
    expect(place(a)).toBeNull()
  })

  it('and in none for requests that run as they are, of another device, of more rows, or without leases', () => {
    const block = blockOf(2)
    expect(placeInBlock([requestOf(1, block, true)], 1, null)).toBeNull()
    expect(placeInBlock([requestOf(1, block)], 1, 0)).toBeNull()
    expect(place(requestOf(3, null))).toBeNull()
    const small = blockOf(2)
    expect(place(requestOf(2, small), requestOf(1, null))).toBeNull()
  })

  it('without a row in two hands, whatever is held', () => {
    const random = mulberry32(17)
    const upTo = (most: number) => Math.floor(random() * (most + 1))
    let placed = 0
    for (let round = 0; round < 5000; round++) {
      const blocks = [blockOf(1 + upTo(11)), blockOf(1 + upTo(11))]
      const batch: InferRequest[] = []
      for (let count = 1 + upTo(8); count > 0; count--) {
        const block = random() < 0.8 ? blocks[upTo(1)]! : null
        const request = requestOf(1 + upTo(2), block)
        if (request.leased?.first === -1) continue
        const what = random()
        if (what < 0.7) batch.push(request)
        else if (what < 0.85 && request.leased !== null)
          request.leased.block!.drop(request.leased.first, request.rows) // others are held
      }
      const found = placeInBlock(batch, rowsOf(batch), null)
      if (found === null) continue
      placed++
      const { block, first, rows, requests, moved } = found
      expect([rows, new Set(requests).size, first + rows <= block.layout.rows]).toEqual([
        rowsOf(batch),
        batch.length,
        true,
      ])
      let row = first
      for (const request of requests) {
        const there = moved.find((each) => each.request === request)
        expect(there === undefined ? request.leased!.first : there.row).toBe(row)
        for (const own of Array.from({ length: request.rows }, (_, at) => row + at))
          expect(block.holdersOf(own)).toBe(there === undefined ? 1 : 0)
        row += request.rows
      }
    }
    expect(placed).toBeGreaterThan(500)
  })
})

describe('the blocks of a model', () => {
  const blocksOf = (
    needed: number,
    { clock = new FakeClock(), most = 0, isShort = (): boolean => false } = {},
  ) => {
    const forgotten: RowBlock[] = []
    const made: RowBlock[] = []
    const make = (spare: boolean) => (spare && isShort() ? null : (made.push(blockOf(4)), made.at(-1)!))
    const blocks = new RowBlocks(
      clock,
      make,
      () => needed,
      most,
      (block) => void forgotten.push(block),
    )
    return { blocks, made, forgotten, clock }
  }

  it('beyond those needed are not asked for again soon where memory was short, as that takes longer than to copy a row', () => {
    let asked = 0
    const { blocks, clock } = blocksOf(1, { most: 8, isShort: () => ++asked > 0 })
    blocks.take(4)
    for (let request = 0; request < 100; request++) expect(blocks.take(1)).toBeNull()
    expect(asked).toBe(1)
    clock.advanceBy(25)
    expect(blocks.take(1)).toBeNull()
    expect(asked).toBe(2)
  })

  it('are filled one after the other, and used again when nobody holds anything of them', () => {
    const { blocks, made } = blocksOf(2)
    const taken = [3, 2, 2].map((rows) => blocks.take(rows)!)
    expect(taken.map(({ block, first }) => [made.indexOf(block), first])).toEqual([
      [0, 0],
      [1, 0],
      [1, 2],
    ])
    expect(blocks.take(1)).toBeNull() // each has memory of its own now
    taken[0]!.block.drop(0, 3)
    expect(blocks.take(4)).toMatchObject({ block: made[0], first: 0 })
    expect(blocks.take(5)).toBeNull()
  })

  it('are more than runs have use for while requests wait, unless memory is short', () => {
    let isShort = false
    const { blocks, made, clock } = blocksOf(1, { most: 3, isShort: () => isShort })
    expect([4, 4].map(() => made.indexOf(blocks.take(4)!.block))).toEqual([0, 1])
    isShort = true
    expect(blocks.take(4)).toBeNull()
    isShort = false
    clock.advanceBy(25)
    expect([blocks.take(4)!.block, blocks.take(1)]).toEqual([made[2], null])
    made[1]!.drop(0, 4)
    expect(blocks.take(2)!.block).toBe(made[1])
  })

  it('are not filled further once a batch was made of them', () => {
    const { blocks, made } = blocksOf(3)
    const { block } = blocks.take(1)!
    blocks.seal(block)
    expect(blocks.take(1)!.block).toBe(made[1])
    block.drop(0, 1)
    expect(block.take(1)).toBe(0)
  })

  it('go back to the system when nobody has used them for two seconds, without a timer meanwhile', () => {
    const { blocks, made, forgotten, clock } = blocksOf(3)
    expect(clock.timers).toBe(0)
    const { block, first } = blocks.take(2)!
    expect(clock.timers).toBe(0)
    block.drop(first, 2)
    clock.advanceBy(1500)
    const again = blocks.take(1)!
    again.block.drop(again.first, 1)
    clock.advanceBy(1500)
    expect([blocks.count, forgotten]).toEqual([1, []])
    clock.advanceBy(500)
    expect([blocks.count, forgotten, clock.timers]).toEqual([0, made, 0])
    expect(released).toContain(made[0]!.buffer)
  })

  it('that only many at once needed go back as well while fewer are in use, which keep theirs', () => {
    const { blocks, made, forgotten, clock } = blocksOf(1, { most: 5 })
    for (const { block } of Array.from({ length: 5 }, () => blocks.take(4)!)) block.drop(0, 4)
    for (let round = 0; round < 21; round++) {
      const [one, two] = [blocks.take(4)!, blocks.take(4)!]
      one.block.drop(0, 4)
      two.block.drop(0, 4)
      clock.advanceBy(100)
    }
    expect([blocks.count, clock.timers]).toEqual([2, 1])
    expect(forgotten).toEqual(made.slice(0, 3))
    clock.advanceBy(2000)
    expect([blocks.count, clock.timers]).toEqual([0, 0])
  })

  it('are never used again when somebody has got hold of their memory', () => {
    const { blocks, made, forgotten } = blocksOf(2)
    const { block } = blocks.take(2)!
    const other = blocks.take(1)!
    block.lose(2)
    other.block.drop(other.first, 1)
    expect(forgotten).toEqual([made[0]])
    expect(blocks.take(1)!.block).toBe(made[1])
  })

  it('go back as soon as nobody holds them, once the model is closed', () => {
    const { blocks, made, forgotten, clock } = blocksOf(2)
    const { block, first } = blocks.take(1)!
    blocks.close()
    expect(forgotten).toEqual([])
    block.drop(first, 1)
    expect([forgotten, clock.timers, blocks.take(1)]).toEqual([made, 0, null])
  })
})
