import { describe, expect, it } from 'vitest'
import { layOut } from '../../src/run/layout.ts'
import type { ModelMetadata, TensorMetadata } from '../../src/tensor/metadata.ts'

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
