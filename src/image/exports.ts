export { decodeImage } from './decode-image.ts'
export type { ArrayTarget, ImageTarget, LeaseTarget } from './decode-image.ts'
export { imageConcurrency } from './decode-queue.ts'
export { imageDims } from '../config/image-options.ts'
export type {
  ImageChannels,
  ImageCrop,
  ImageDataType,
  ImageFit,
  ImageKernel,
  ImageLayout,
  ImageOptions,
} from '../config/image-options.ts'
export type { ImageFormat } from '../config/image-format.ts'
export type { ImageLimits } from '../config/image-limits.ts'
export type { ImageSource } from './image-source.ts'
export type { PixelArray } from './pixels.ts'
