import type { Tensor, TensorConstructor } from 'onnxruntime-common'
import type { MailedTensor } from '../../tensor/tensor.ts'
import { storageOf, type ElementType, type TensorData } from '../../tensor/tensor.ts'

/**
 * For values by name, as the binding takes them. Without a prototype: it asks for every name whether the object has it,
 * and any object has a `toString`.
 */
export function byName<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>
}

/** A numeric tensor over `data`, which ONNX Runtime will read in place. */
export function numericTensor(
  Tensor: TensorConstructor,
  type: ElementType,
  data: TensorData,
  dims: readonly number[],
): Tensor {
  const tensor = new Tensor(type as 'float32', data as Float32Array, dims)
  // Newer Node: onnxruntime-common turns float16's raw bits into a Float16Array, whose length the binding reads as 0.
  if (type === 'float16' && tensor.data !== (data as unknown))
    (tensor as unknown as { cpuData: unknown }).cpuData = data
  return tensor
}

/** A tensor from the form in which it travelled. */
export function mailedTensor(Tensor: TensorConstructor, { type, dims, data }: MailedTensor): Tensor {
  if (data instanceof ArrayBuffer) return numericTensor(Tensor, type, new (storageOf(type))(data), dims)
  return new Tensor('string', data as string[], dims)
}
