import { describe, expect, it } from 'vitest'
import { RowBlock, RowBlocks } from '../../src/native/row-blocks.ts'
import type { StagingBuffer } from '../../src/native/staging-pool.ts'
import { noOptions } from '../../src/options/infer-options.ts'
import { InferRequest, PriorityLevel } from '../../src/request/infer-request.ts'
import type { Executor } from '../../src/run/executors/executor.ts'
import { largestSlotBytes, layOut, roomFor, slotsAhead, type ViewedLayout } from '../../src/run/layout.ts'
import { LargeSlots } from '../../src/run/model-instance.ts'
import { StagingSlot } from '../../src/run/staging-slot.ts'
import type { ModelMetadata, TensorMetadata } from '../../src/tensor/metadata.ts'
import { FakeClock } from '../fake-clock.ts'

function metadata(
  maxBatchSize: number,
  inputs: Partial<TensorMetadata>[],
  outputs: Partial<TensorMetadata>[],
): ModelMetadata {
  const complete = (values: Partial<TensorMetadata>[], prefix: string) =>
    values.map(
      (value, index) =>
        ({ name: `${prefix}${index}`, type: 'float32', shape: [], ...value }) as TensorMetadata,
    )
  const joining = { rows: 'declared', how: 'declared', largestDifference: null, reason: '' } as const
  return {
    name: 'm',
    path: 'm.onnx',
    inputs: complete(inputs, 'x'),
    outputs: complete(outputs, 'y'),
    properties: null,
    unservableOutputs: [],
    executionProviders: [],
    maxBatchSize,
    joining,
  }
}

describe('layOut', () => {
  it('puts tensors one after the other, each on a cache line', () => {
    const layout = layOut(metadata(8, [{ shape: ['N', 3] }, { shape: ['N'] }], [{ shape: ['N', 2] }]), {
      rows: 5,
      given: [],
    })
    expect(layout.inputs).toEqual([
      { offset: 0, dims: [5, 3] },
      { offset: 64, dims: [5] },
    ])
    expect(layout.outputs).toEqual([{ offset: 128, dims: [5, 2] }])
    expect(layout.byteLength).toBe(128 + 40)
  })

  it('puts large tensors on a page', () => {
    const layout = layOut(metadata(8, [{ shape: ['N'] }, { shape: ['N', 16384] }], [{ shape: ['N'] }]), {
      rows: 1,
      given: [],
    })
    expect(layout.inputs[1]).toEqual({ offset: 4096, dims: [1, 16384] })
  })

  it('finds output sizes through the names of input dimensions', () => {
    const model = metadata(0, [{ shape: ['b', 'seq'] }], [{ shape: [2, 'seq'] }, { shape: ['b', 'other'] }])
    const layout = layOut(model, { rows: 1, given: [], rowDims: [[3, 7]] })
    expect(layout.outputs).toEqual([{ offset: 128, dims: [2, 7] }, null])
  })

  it('leaves strings, and outputs that surprised before, to messages', () => {
    const model = metadata(
      4,
      [{ type: 'string', shape: ['N'] }],
      [{ type: 'string', shape: ['N'] }, { shape: ['N'] }],
    )
    const layout = layOut(model, { rows: 2, given: [], unpredictable: new Set([1]) })
    expect(layout.inputs).toEqual([null])
    expect(layout.outputs).toEqual([null, null])
    expect(layout.inputDims).toEqual([[2]])
  })

  it('moves a large output of one row, and stages that of several', () => {
    const model = metadata(4, [{ shape: ['N'] }], [{ shape: ['N', 16384] }])
    expect(layOut(model, { rows: 1, given: [], movesFromBytes: 65_536 }).outputs).toEqual([null])
    expect(layOut(model, { rows: 2, given: [], movesFromBytes: 65_536 }).outputs).toEqual([
      { offset: 4096, dims: [2, 16384] },
    ])
  })

  it('leaves out what nobody asked for', () => {
    const model = metadata(4, [{ shape: ['N'] }], [{ shape: ['N'] }, { shape: ['N'] }])
    expect(layOut(model, { rows: 1, given: [], outputMask: 0b10 }).outputs).toEqual([
      undefined,
      { offset: 64, dims: [1] },
    ])
  })
})

describe('forgotten layouts', () => {
  const tensor = (name: string) => ({ name, type: 'float32', shape: ['N', 1] }) as unknown as TensorMetadata
  const joining = { rows: 'declared', how: 'declared', largestDifference: null, reason: '' } as const
  const metadata: ModelMetadata = {
    name: 'm',
    path: 'm.onnx',
    inputs: [tensor('x')],
    outputs: [tensor('y')],
    properties: null,
    unservableOutputs: [],
    executionProviders: [],
    maxBatchSize: 2 ** 31 - 1,
    joining,
  }
  const request = {
    bucketKey: '',
    whole: false,
    data: [new Float32Array(1)],
    dims: null,
  } as unknown as InferRequest
  const largest = 5000

  /** A slot with room for the largest batch, and the worker's side of its layouts, by their indices. */
  function slot() {
    const acquire = (byteLength: number) =>
      ({
        bytes: new SharedArrayBuffer(byteLength),
        byteLength,
        release: () => {},
      }) as unknown as StagingBuffer
    const own = new StagingSlot(
      { nextSlotId: () => 7, acquire, trim: () => {}, movesFromBytes: 65_536 },
      metadata,
      null,
    )
    const known: number[] = []
    const executor = {
      defineSlot: () => {},
      defineLayout: (_: number, index: number, { inputs }: Pick<ViewedLayout, 'inputs'>) =>
        void (known[index] = inputs[0]!.dims[0]!),
    } as unknown as Executor
    const batch = (rows: number): ViewedLayout => {
      const layout = own.layoutFor([request], rows, -1, new Set())
      own.announce(executor, 1, layout)
      expect(known[layout.index]).toBe(rows)
      return layout
    }
    batch(largest)
    return { batch, known }
  }

  describe('a slot of a model of fixed shape', () => {
    it('remembers 512 layouts at most, however many sizes batches have, and so does its worker', () => {
      const { batch, known } = slot()
      for (let rows = 1200; rows > 0; rows--) batch(rows)
      expect(known).toHaveLength(512)
      for (let rows = 1; rows < 1200; rows++) batch(rows)
      expect(known).toHaveLength(512)
    })

    it('keeps those of up to 256 rows whatever else comes', () => {
      const { batch } = slot()
      const small = Array.from({ length: 257 }, (_, rows) => batch(rows))
      for (let rows = 257; rows < 1200; rows++) batch(rows)
      for (const [rows, layout] of small.entries()) expect(batch(rows)).toBe(layout)
    })

    it('lays out larger ones anew when they have been forgotten, and only then', () => {
      const { batch } = slot()
      const layout = batch(1000)
      for (let rows = 2000; rows < 2300; rows++) batch(rows)
      expect(batch(1000)).toBe(layout)
      for (let rows = 3000; rows < 4000; rows++) batch(rows)
      expect(batch(1000)).not.toBe(layout)
    })
  })
})

describe('staging slot', () => {
  const tensor = (name: string) => ({ name, type: 'float32', shape: ['N', 4] }) as const
  const metadata = {
    name: 'm',
    inputs: [tensor('x')],
    outputs: [tensor('y')],
    maxBatchSize: 4,
  } as unknown as ModelMetadata
  const acquire = (byteLength: number) =>
    ({
      bytes: new SharedArrayBuffer(byteLength),
      byteLength,
      largeFromBytes: Infinity,
      release: () => {},
    }) as unknown as StagingBuffer

  it.each([[0], [3], [5]])(
    'a request whose data have %i elements where 4 were checked is not gathered, alone or with others',
    (elements) => {
      const slot = new StagingSlot(
        { nextSlotId: () => 1, acquire, trim: () => {}, movesFromBytes: 65_536 },
        metadata,
        null,
      )
      const request = (values: Float32Array) =>
        new InferRequest(
          { rows: 1, bucketKey: '', whole: false, data: [values], dims: null },
          {} as PriorityLevel,
          noOptions,
          () => {},
          () => {},
        )
      const gather = (...batch: InferRequest[]) =>
        slot.gather(batch, slot.layoutFor(batch, batch.length, -1, new Set()))
      const good = request(new Float32Array(4))
      const changed = request(new Float32Array(elements))
      expect(() => gather(good, good)).not.toThrow()
      for (const batch of [[changed], [good, changed], [changed, good]]) {
        expect(() => gather(...batch)).toThrow(`had 4 elements when it was checked has ${elements} now`)
      }
    },
  )

  it('rows that are run where they lie are held until the run is over, withdrawn or not: nobody else is given them, or a place between them', () => {
    const layout = {
      rows: 3,
      byteLength: 96,
      inputs: [{ offset: 0, rowBytes: 16 }],
      outputs: [{ offset: 48, rowBytes: 16 }],
    }
    const blocks = new RowBlocks(
      new FakeClock(),
      () => new RowBlock(layout, acquire(96), null),
      () => 1,
      0,
      () => {},
    )
    const slot = new StagingSlot(
      { nextSlotId: () => 1, acquire, trim: () => {}, movesFromBytes: 65_536 },
      metadata,
      null,
    )
    const leased = () => {
      const { block, first } = blocks.take(1)!
      const data = new Float32Array(block.buffer.bytes, 16 * first, 4)
      const lease = { block, first, rows: 1, settled: () => block.drop(first, 1) }
      return new InferRequest(
        { rows: 1, bucketKey: '', whole: false, data: [data], dims: null, leased: lease },
        {} as PriorityLevel,
        noOptions,
        () => {},
        () => {},
      )
    }
    const [first, second] = [leased(), leased()]
    const { block } = first.leased!
    slot.gather([first, second], slot.layoutFor([first, second], 2, -1, new Set(), blocks))
    expect([0, 1, 2].map((row) => block!.holdersOf(row))).toEqual([2, 2, 0])
    expect([slot.leasedInPlace, slot.leasedCopied, blocks.rows]).toEqual([2, 0, { inPlace: 0, copied: 0 }]) // until they have run
    for (const request of [first, second]) request.fail('withdrawn', true)
    expect([0, 1, 2].map((row) => block!.holdersOf(row))).toEqual([1, 1, 0])
    expect(blocks.take(1)).toBeNull() // it is the only block, and read still
    blocks.ran(slot)
    slot.end()
    expect([slot.leasedInPlace, blocks.rows]).toEqual([0, { inPlace: 2, copied: 0 }])
    expect(blocks.take(3)).toMatchObject({ block, first: 0 })
  })
})

describe('slots ahead', () => {
  function metadata(
    maxBatchSize: number,
    inputShape: (string | number)[],
    outputShape = inputShape,
  ): ModelMetadata {
    const tensor = (name: string, shape: (string | number)[]) =>
      ({ name, type: 'float32', shape }) as TensorMetadata
    return {
      name: 'm',
      path: 'm.onnx',
      inputs: [tensor('x', inputShape)],
      outputs: [tensor('y', outputShape)],
      properties: null,
      unservableOutputs: [],
      executionProviders: [],
      joining: { rows: 'unknown', how: 'unknown', largestDifference: null, reason: '' },
      maxBatchSize,
    }
  }

  describe('the size of a slot made ahead', () => {
    it('is that of the largest batch, inputs and outputs', () => {
      expect(largestSlotBytes(metadata(8, ['N', 2 ** 18]))).toBe(16 * 2 ** 20)
    })

    it('is that of the only one where the model is not batched', () => {
      expect(largestSlotBytes(metadata(0, [1, 1024]))).toBe(8192)
    })

    it('is the least where shapes vary', () => {
      expect(largestSlotBytes(metadata(8, ['N', 'length']))).toBe(4096)
      expect(largestSlotBytes(metadata(0, ['N', 4]))).toBe(4096)
    })
  })

  describe('the room that a slot takes', () => {
    it.each([
      [0, 4096],
      [4096, 4096],
      [4097, 8192],
      [2 ** 20, 2 ** 20],
      [2 ** 20 + 1, 2 ** 20 + 2 ** 18],
      [480e6, 2 ** 29],
      [160e6, 5 * 2 ** 25],
    ])('for %i bytes is %i', (neededBytes, expected) => {
      expect(roomFor(neededBytes)).toBe(expected)
      expect(roomFor(expected)).toBe(expected || 4096)
    })
  })

  describe('slots made ahead', () => {
    const place = (kind: 'cpu' | 'cuda', gpu: number) => ({ kind, gpu, intraOpNumThreads: 1 })

    it('are for instances on CUDA devices, each on its own device', async () => {
      const asked: [bytes: number, device: number][] = []
      const pool = {
        acquireAhead: async (bytes: number, device: number) => {
          asked.push([bytes, device])
          return asked.length === 4 ? null : ({} as StagingBuffer)
        },
      }
      const ahead: StagingBuffer[][] = []
      for (const placement of [place('cuda', 1), place('cpu', 0), place('cuda', 0)])
        ahead.push(await slotsAhead(pool, metadata(4, ['N', 1024]), placement, 2))
      const bytes = largestSlotBytes(metadata(4, ['N', 1024]))
      expect(asked).toEqual([
        [bytes, 1],
        [bytes, 1],
        [bytes, 0],
        [bytes, 0],
      ])
      // Past the limit there is none: that slot gets its memory with its first batch.
      expect(ahead.map(({ length }) => length)).toEqual([2, 0, 1])
    })

    it('are given back when one of them cannot be had', async () => {
      let [acquired, released] = [0, 0]
      const pool = {
        acquireAhead: async () => {
          if (acquired === 3) throw new Error('the device is gone')
          acquired++
          return { release: () => released++ } as unknown as StagingBuffer
        },
      }
      const acquiring = slotsAhead(pool, metadata(4, ['N', 1024]), place('cuda', 0), 4)
      await expect(acquiring).rejects.toThrow('the device is gone')
      expect([acquired, released]).toEqual([3, 3])
    })
  })
})

/** A slot with as much of one as is looked at; a batch of it takes no time. */
class Slot {
  large = true
  neededLarge = true
  batch: object | null = null
}

function setUp() {
  const clock = new FakeClock()
  const given: Slot[] = []
  const slots = new LargeSlots(clock, (slot) => {
    given.push(slot as unknown as Slot)
    ;(slot as unknown as Slot).large = false
  })
  const returned = (slot: Slot, neededLarge: boolean) => {
    slot.neededLarge = neededLarge
    slots.returned(slot as unknown as StagingSlot)
  }
  return { clock, given, slots, returned }
}

describe('large slots', () => {
  it('are given back two seconds after the last batch that needed them, and no timer is left', () => {
    const { clock, given, returned } = setUp()
    const slot = new Slot()
    returned(slot, true)
    clock.advanceBy(1999)
    expect(given).toEqual([])
    clock.advanceBy(1)
    expect(given).toEqual([slot])
    expect(clock.timers).toBe(0)
  })

  it('are given back although small batches keep coming', () => {
    const { clock, given, returned } = setUp()
    const slot = new Slot()
    returned(slot, true)
    for (let count = 0; count < 25; count++) {
      clock.advanceBy(100)
      if (slot.large) returned(slot, false)
    }
    expect(given).toEqual([slot])
  })

  it('are kept while they are in steady use, with one timer for all', () => {
    const { clock, given, returned } = setUp()
    const slots = [new Slot(), new Slot()]
    for (let count = 0; count < 100; count++) {
      for (const slot of slots) returned(slot, true)
      clock.advanceBy(500)
      expect(clock.timers).toBe(1)
    }
    expect(given).toEqual([])
  })

  it('are not taken from a batch', () => {
    const { clock, given, returned } = setUp()
    const slot = new Slot()
    returned(slot, true)
    slot.batch = {}
    clock.advanceBy(10_000)
    expect(given).toEqual([])
    slot.batch = null
    clock.advanceBy(2000)
    expect(given).toEqual([slot])
  })

  it('that are small cost no timer', () => {
    const { clock, returned } = setUp()
    const slot = new Slot()
    slot.large = false
    returned(slot, true)
    expect(clock.timers).toBe(0)
  })

  it('are looked at no more once the instance is closed', () => {
    const { clock, given, slots, returned } = setUp()
    returned(new Slot(), true)
    slots.close()
    expect(clock.timers).toBe(0)
    clock.advanceBy(10_000)
    expect(given).toEqual([])
  })
})
