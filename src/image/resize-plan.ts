import type { ImageCrop, ResolvedImageOptions } from '../config/image-options.ts'
import type { JpegFrame, ResizeAxis } from '../memory/native-jpeg.ts'

export interface ImageSize {
  readonly width: number
  readonly height: number
}

/** How a JPEG gets its final size, as sharp would do it. */
export interface ResizePlan {
  readonly frame: JpegFrame
  readonly columns: ResizeAxis
  readonly rows: ResizeAxis
  /** Where the image begins in the result, which is larger where bars are left beside it. */
  readonly left: number
  readonly top: number
}

/** From here on sharp takes means of pixels before it filters. */
const shrinkByMeans = 4

/** The plan for an image of that size; `null` where sharp would enlarge it, or shrink it much more in one direction. */
export function planResize(source: ImageSize, options: ResolvedImageOptions): ResizePlan | null {
  const { width, height } = options
  const target = options.crop === undefined ? options : scaledSize(source, options.crop)
  const frame = { ...source, shrink: shrinkOnLoad(shrinkTo(target, source, options)) }
  const decoded = { width: Math.floor(source.width / frame.shrink), height: Math.floor(source.height / frame.shrink) }
  const { across, down } = shrinkTo(target, decoded, options)
  if (Math.min(across, down) < 1 || Math.max(across, down) >= shrinkByMeans) return null
  const columns = axisOf(decoded.width, across, width)
  const rows = axisOf(decoded.height, down, height)
  return { frame, columns, rows, left: Math.floor((width - columns.count) / 2), top: Math.floor((height - rows.count) / 2) }
}

/** The size that the whole image gets before its centre is cut. */
export function scaledSize({ width, height }: ImageSize, { shorterSide }: ImageCrop): ImageSize {
  // Multiplied before it is divided: the other way round a square may come out a pixel short.
  return width < height
    ? { width: shorterSide, height: Math.floor((height * shorterSide) / width) }
    : { width: Math.floor((width * shorterSide) / height), height: shorterSide }
}

/** Pixels of the source to one of the result, in either direction. */
interface Shrink {
  readonly across: number
  readonly down: number
}

function shrinkTo(target: ImageSize, source: ImageSize, { crop, fit }: ResolvedImageOptions): Shrink {
  const across = source.width / target.width
  const down = source.height / target.height
  if (crop !== undefined || fit === 'fill') return { across, down }
  const shrink = fit === 'cover' ? Math.min(across, down) : Math.max(across, down)
  return { across: shrink, down: shrink }
}

/** How much smaller a JPEG is decoded: sharp leaves something to the filter. */
function shrinkOnLoad({ across, down }: Shrink): number {
  const shrink = Math.min(across, down)
  const most = [8, 4, 2].find((step) => shrink >= step) ?? 1
  return most > 1 && Math.floor(shrink) === most ? most / 2 : most
}

/** How an image gets its final size in one direction at least of which it is to be enlarged. */
export interface EnlargePlan {
  /** What of it is seen, with what the filter takes beside that. */
  readonly seen: ImageSize & { readonly left: number; readonly top: number }
  /** The size that this gets before it is enlarged: smaller in the other direction, if it is to be smaller there. */
  readonly before: ImageSize
  readonly columns: ResizeAxis
  readonly rows: ResizeAxis
  /** Where the image begins in the result. */
  readonly left: number
  readonly top: number
}

/** The plan for an image of that size; `null` where it is enlarged in neither direction. */
export function planEnlarging(source: ImageSize, options: ResolvedImageOptions): EnlargePlan | null {
  const target = options.crop === undefined ? options : scaledSize(source, options.crop)
  const { across, down } = shrinkTo(target, source, options)
  if (Math.min(across, down) >= 1) return null
  const columns = enlargedAxis(source.width, across, options.width)
  const rows = enlargedAxis(source.height, down, options.height)
  return {
    seen: { left: columns.from, top: rows.from, width: columns.seen, height: rows.seen },
    before: { width: columns.before, height: rows.before },
    columns: columns.axis,
    rows: rows.axis,
    left: Math.floor((options.width - columns.axis.count) / 2),
    top: Math.floor((options.height - rows.axis.count) / 2),
  }
}

/** Pixels that a filter takes to either side, at most. */
const filterRadius = 3

function enlargedAxis(length: number, shrink: number, wanted: number): { axis: ResizeAxis; from: number; seen: number; before: number } {
  if (shrink >= 1) {
    const before = Math.max(1, Math.round(length / shrink))
    return { axis: axisOf(before, 1, wanted), from: 0, seen: length, before }
  }
  const axis = axisOf(length, shrink, wanted)
  const from = Math.max(0, Math.floor(axis.start) - filterRadius)
  const seen = Math.min(length, Math.ceil(axis.start + (axis.count - 1) * shrink) + filterRadius + 1) - from
  return { axis: { ...axis, start: axis.start - from }, from, seen, before: seen }
}

function axisOf(length: number, shrink: number, wanted: number): ResizeAxis {
  const scaled = Math.max(1, Math.round(length / shrink))
  const count = Math.min(scaled, wanted)
  const first = Math.floor((scaled - count + 1) / 2)
  // The middle of the result lies on that of the source.
  return { shrink, start: (first + 0.5 - scaled / 2) * shrink + length / 2 - 0.5, count }
}
