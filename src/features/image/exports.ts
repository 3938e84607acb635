export { decodeImage } from './decode-image.ts'
export type { ArrayTarget, ImageTarget, LeaseTarget } from './decode-image.ts'
export { imageConcurrency } from './decode-queue.ts'
export { imageDims } from '../../options/image-options.ts'
export type {
  ImageChannels,
  ImageCrop,
  ImageDataType,
  ImageFit,
  ImageKernel,
  ImageLayout,
  ImageOptions,
} from '../../options/image-options.ts'
export type { ImageFormat } from '../../options/image-options.ts'
export type { ImageLimits } from '../../options/image-options.ts'
export type { ImageSource } from './image-source.ts'
export type { PixelArray } from './pixels.ts'
