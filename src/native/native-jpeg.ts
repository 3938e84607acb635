import type { KernelArray } from './native-kernels.ts'

/** Filters of a resize, by their names in sharp, in the order in which the addon knows them. */
export const resizeFilters = [
  'linear',
  'cubic',
  'mitchell',
  'lanczos2',
  'lanczos3',
  'mks2013',
  'mks2021',
] as const

/** A JPEG as its header tells it. */
export interface JpegFrame {
  readonly width: number
  readonly height: number
  /** How many pixels become one in each direction while it is decoded: 1, 2, 4 or 8. What is over at the end counts nothing. */
  readonly shrink: number
}

/** One direction of a resize. Only the pixels of the result that are wanted are computed. */
export interface ResizeAxis {
  /** Pixels of what was decoded to one of the result, at least 1; 1 leaves them as they are, whatever the filter. */
  readonly shrink: number
  /** Where in what was decoded the middle of the first wanted pixel lies; that of its first pixel is 0. */
  readonly start: number
  /** How many are wanted. */
  readonly count: number
}

/** What is made of the pixels of a JPEG. */
export interface JpegResize {
  readonly columns: ResizeAxis
  readonly rows: ResizeAxis
  /** Its place in {@link resizeFilters}. */
  readonly filter: number
  /** Byte of the target at which the first row begins. */
  readonly offset: number
  /** Bytes from the beginning of a row to that of the next. */
  readonly stride: number
}

/** Decoding of JPEGs by a libjpeg-turbo that is found at run time. */
export interface NativeJpeg {
  /** Opens the library; the first that is opened in the process stays. Throws in the words of the system's loader. */
  openJpegDecoder(path: string): void
  /**
   * Decodes a JPEG and writes it, smaller, as 8-bit RGB pixels, on a thread of libuv's pool; both arrays must stay as they are until
   * that is done. False where the library as much as warns of the file, or its header is not as said.
   */
  decodeJpeg(bytes: KernelArray, target: KernelArray, frame: JpegFrame, resize: JpegResize): Promise<boolean>
}
