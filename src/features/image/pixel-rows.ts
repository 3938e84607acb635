import type { ImageDataType } from '../../options/image-options.ts'
import type { PixelArray } from './pixels.ts'

/** By which something shows that images can be decoded into it, to whichever copy of this module. */
export const pixelRows: unique symbol = Symbol.for('zerohop.pixelRows')

/** One image as it is to lie in memory. */
export interface PixelRow {
  readonly dtype: ImageDataType
  /** Without a batch dimension. */
  readonly dims: readonly number[]
}

/** Where the rows of an input can be written that are images: a lease of a model. */
export interface PixelRows {
  readonly [pixelRows]: {
    /**
     * Checks that an image can be written.
     *
     * @param input its name; `undefined` for the only one there is.
     * @throws InferenceError `ERR_INVALID_ARG`; `ERR_LEASE_ENDED`.
     */
    check(input: unknown, row: unknown, image: PixelRow): void
    /** As `check`, and has it written there and then. */
    write(input: unknown, row: unknown, image: PixelRow, write: (elements: PixelArray) => void): void
  }
}

/** Whether images can be decoded into something that is no array. */
export function hasPixelRows(value: unknown): value is PixelRows {
  return typeof value === 'object' && value !== null && pixelRows in value
}
