export { InferenceError } from './errors.ts'
export type { InferenceErrorCode, InferenceErrorDetails } from './errors.ts'
