import { noteOrigins } from './session-origins.ts'

export { accelerate } from './accelerate.ts'
export type { AcceleratedModelOptions, AccelerateOptions } from './accelerate.ts'

noteOrigins()
