import type { ImageDataType } from '../../options/image-options.ts'
import type { PixelArray } from './pixels.ts'

/** Marks objects that images can be decoded into. All copies of this module share the symbol. */
export const pixelRows: unique symbol = Symbol.for('zerohop.pixelRows')

/** The form of one image in memory. */
export interface PixelRow {
  readonly dtype: ImageDataType
  /** Without a batch dimension. */
  readonly dims: readonly number[]
}

/** A destination with image rows: a lease of a model. */
export interface PixelRows {
  readonly [pixelRows]: {
    /**
     * Checks that an image can be written.
     *
     * @param input name of the input; `undefined` for the only one.
     * @throws InferenceError `ERR_INVALID_ARG`; `ERR_LEASE_ENDED`.
     */
    check(input: unknown, row: unknown, image: PixelRow): void
    /** Checks like `check`, and calls `write` at once. */
    write(input: unknown, row: unknown, image: PixelRow, write: (elements: PixelArray) => void): void
  }
}

/** Whether a value is a destination for images other than an array. */
export function hasPixelRows(value: unknown): value is PixelRows {
  return typeof value === 'object' && value !== null && pixelRows in value
}
