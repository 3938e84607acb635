/** An array that kernels work on: they look at its bytes. */
export type KernelArray = ArrayBufferView & { readonly length: number }

/** Loops over many bytes. Offsets, strides and lengths of rows are in bytes; each call checks that its rows lie in its arrays. */
export interface NativeKernels {
  /**
   * Writes 8-bit RGB pixels, one after the other, into three planes.
   *
   * @param planes as many elements as `rgb` has: a `Float32Array`, or a `Uint16Array` of half-precision bits.
   * @param table of the type of `planes`: for each plane what each of the 256 values becomes. The planes are equal to it in every bit.
   * @param factors by which arithmetic gives the same, perhaps but for roundings: of each plane a factor, then of each a summand.
   * @param swapped whether the first plane is blue.
   */
  writePlanes(
    rgb: KernelArray,
    planes: KernelArray,
    table: KernelArray,
    factors: Float64Array,
    swapped: boolean,
  ): void
  /** Copies rows that lie a stride apart to where they lie another stride apart. */
  copyRows(
    source: KernelArray, sourceOffset: number, sourceStride: number,
    target: KernelArray, targetOffset: number, targetStride: number,
    rowBytes: number, rows: number,
  ): void // prettier-ignore
  /** Fills rows that lie a stride apart with one element, which `element` has. */
  fillRows(
    target: KernelArray,
    offset: number,
    stride: number,
    rowBytes: number,
    rows: number,
    element: KernelArray,
  ): void
  /** What kernels are done with on this processor. */
  readonly vectorInstructions: 'avx2' | 'neon' | 'none'
}
