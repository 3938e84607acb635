import { isSharedArrayBuffer } from 'node:util/types'
import type { ResolvedImageOptions } from '../../options/image-options.ts'
import { loadBinding } from '../../native/addon.ts'
import type { KernelArray } from '../../native/native-binding.ts'

/**
 * Has the addon write three planes of floats, many values at once; false where there is no addon, or it has nothing for what is
 * wanted. The result is that of the table in every bit.
 */
export function writePlanesNatively(
  rgb: Uint8Array,
  row: KernelArray,
  table: KernelArray,
  options: ResolvedImageOptions,
): boolean {
  const { channels, layout, dtype, scale, mean, std } = options
  if (channels === 'gray' || layout !== 'nchw' || (dtype !== 'float32' && dtype !== 'float16')) return false
  const { binding } = loadBinding()
  if (binding === null || isSharedArrayBuffer(row.buffer)) return false
  const factors = Float64Array.from([
    ...std.map((divisor) => scale / divisor),
    ...mean.map((value, channel) => -value / std[channel]!),
  ])
  binding.writePlanes(rgb, row, table, factors, channels === 'bgr')
  return true
}
