export { decodeImage } from './decode-image.ts'
export type { ImageTarget } from './decode-image.ts'
export { imageConcurrency } from './decode-queue.ts'
export { imageDims } from './image-options.ts'
export type {
  ImageChannels,
  ImageCrop,
  ImageDataType,
  ImageFit,
  ImageKernel,
  ImageLayout,
  ImageOptions,
} from './image-options.ts'
export type { ImageFormat } from './image-format.ts'
export type { ImageLimits } from './image-limits.ts'
export type { ImageSource } from './image-source.ts'
export type { PixelArray } from './pixels.ts'
