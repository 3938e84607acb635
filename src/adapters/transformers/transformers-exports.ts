import { noteOrigins } from './accelerate.ts'

export { accelerate } from './accelerate.ts'
export type { AcceleratedModelOptions, AccelerateOptions } from './accelerate.ts'

noteOrigins()
