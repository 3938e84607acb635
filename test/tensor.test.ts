import { Tensor } from 'onnxruntime-common'
import { expect, it } from 'vitest'
import { makeTensor } from '../src/tensor/tensor.ts'

it.each([[[2, 3]], [[6]], [[0, 4]], [[]]])(
  'a tensor of float32 with dims %j is the one that its class makes',
  (dims) => {
    const data = new Float32Array(dims.reduce((product, dim) => product * dim, 1))
    const [made, own] = [makeTensor('float32', data, dims) as Tensor, new Tensor('float32', data, dims)]
    expect(made).toStrictEqual(own)
    expect(Object.keys(made)).toEqual(Object.keys(own))
    expect([made.data, made.location, made.reshape([data.length]).dims]).toEqual([data, 'cpu', [data.length]])
    made.dispose()
    expect(() => made.data).toThrow('disposed')
  },
)

it('a tensor is refused that has other elements than its dims say', () => {
  expect(() => makeTensor('float32', new Float32Array(5), [2, 3])).toThrow('does not match data length')
})
