import { describe, expect, it } from 'vitest'
import { largestSlotBytes, SlotsAhead, roomFor } from '../../src/run/staging-slot.ts'
import type { StagingBuffer } from '../../src/native/staging-pool.ts'
import type { ModelMetadata, TensorMetadata } from '../../src/tensor/metadata.ts'

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
  const place = (kind: 'cpu' | 'cuda', gpu: number) => ({ placement: { kind, gpu, intraOpNumThreads: 1 } })

  it('are for instances on CUDA devices, each on its own device, and may be given back', async () => {
    const asked: [bytes: number, device: number][] = []
    let released = 0
    const pool = {
      acquireAhead: async (bytes: number, device: number) => {
        asked.push([bytes, device])
        return asked.length === 4 ? null : ({ release: () => released++ } as unknown as StagingBuffer)
      },
    }
    const ahead = await SlotsAhead.acquire(
      pool,
      metadata(4, ['N', 1024]),
      [place('cuda', 1), place('cpu', 0), place('cuda', 0)],
      2,
    )
    const bytes = largestSlotBytes(metadata(4, ['N', 1024]))
    expect(asked).toEqual([
      [bytes, 1],
      [bytes, 1],
      [bytes, 0],
      [bytes, 0],
    ])
    // Past the limit there is none: that slot gets its memory with its first batch.
    expect(ahead.byInstance.map(({ length }) => length)).toEqual([2, 0, 1])
    ahead.release()
    expect(released).toBe(3)
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
    const acquiring = SlotsAhead.acquire(
      pool,
      metadata(4, ['N', 1024]),
      [place('cuda', 0), place('cuda', 1)],
      2,
    )
    await expect(acquiring).rejects.toThrow('the device is gone')
    expect([acquired, released]).toEqual([3, 3])
  })
})
