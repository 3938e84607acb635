import type { ImageCrop, ResolvedImageOptions } from '../../options/image-options.ts'
import type { JpegFrame, ResizeAxis } from '../../native/native-binding.ts'

export interface ImageSize {
  readonly width: number
  readonly height: number
}

/** How an image is brought to its final size. */
export interface ResizePlan {
  readonly columns: ResizeAxis
  readonly rows: ResizeAxis
  /** Where the image begins in the result. The result is larger if bars are added. */
  readonly left: number
  readonly top: number
}

/** The plan for a JPEG that is shrunk during decoding, as sharp does. */
export interface JpegPlan extends ResizePlan {
  readonly frame: JpegFrame
}

/** From this factor on sharp averages pixels before filtering. */
const shrinkByMeans = 4

/**
 * The plan for a JPEG of that size; `null` if sharp would enlarge it, or shrink it much more in one direction
 * than in the other.
 */
export function planJpeg(source: ImageSize, options: ResolvedImageOptions): JpegPlan | null {
  const frame = { ...source, shrink: shrinkOnLoad(shrinkTo(source, options)) }
  const decoded = {
    width: Math.floor(source.width / frame.shrink),
    height: Math.floor(source.height / frame.shrink),
  }
  const target = options.crop === undefined ? options : scaledSize(source, options.crop)
  const shrink = shrinkTo(decoded, options, target)
  if (Math.min(shrink.across, shrink.down) < 1 || Math.max(shrink.across, shrink.down) >= shrinkByMeans)
    return null
  return { frame, ...planFor(decoded, shrink, options) }
}

/** The plan for an image that is enlarged in at least one direction; `null` for others. */
export function planEnlarging(source: ImageSize, options: ResolvedImageOptions): ResizePlan | null {
  const shrink = shrinkTo(source, options)
  return shrink.across < 1 || shrink.down < 1 ? planFor(source, shrink, options) : null
}

function planFor(
  source: ImageSize,
  { across, down }: Shrink,
  { width, height }: ResolvedImageOptions,
): ResizePlan {
  const columns = axisOf(source.width, across, width)
  const rows = axisOf(source.height, down, height)
  return {
    columns,
    rows,
    left: Math.floor((width - columns.count) / 2),
    top: Math.floor((height - rows.count) / 2),
  }
}

/** Size of the whole image before its centre is cropped. */
export function scaledSize({ width, height }: ImageSize, { shorterSide }: ImageCrop): ImageSize {
  // Multiply before dividing: the other order may make a square one pixel short.
  return width < height
    ? { width: shorterSide, height: Math.floor((height * shorterSide) / width) }
    : { width: Math.floor((width * shorterSide) / height), height: shorterSide }
}

/** Pixels of the source per pixel of the result, in each direction. */
interface Shrink {
  readonly across: number
  readonly down: number
}

function shrinkTo(
  source: ImageSize,
  options: ResolvedImageOptions,
  target: ImageSize = options.crop === undefined ? options : scaledSize(source, options.crop),
): Shrink {
  const { crop, fit } = options
  const across = source.width / target.width
  const down = source.height / target.height
  if (crop !== undefined || fit === 'fill') return { across, down }
  const shrink = fit === 'cover' ? Math.min(across, down) : Math.max(across, down)
  return { across: shrink, down: shrink }
}

/** By how much a JPEG is shrunk during decoding. Like sharp, it leaves a part for the filter. */
function shrinkOnLoad({ across, down }: Shrink): number {
  const shrink = Math.min(across, down)
  const most = [8, 4, 2].find((step) => shrink >= step) ?? 1
  return most > 1 && Math.floor(shrink) === most ? most / 2 : most
}

function axisOf(length: number, shrink: number, wanted: number): ResizeAxis {
  const scaled = Math.max(1, Math.round(length / shrink))
  const count = Math.min(scaled, wanted)
  const first = Math.floor((scaled - count + 1) / 2)
  // The centres of the result and of the source coincide.
  return { shrink, start: (first + 0.5 - scaled / 2) * shrink + length / 2 - 0.5, count }
}
