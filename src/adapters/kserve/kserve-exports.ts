export { kserve } from './kserve.ts'
export type { KserveHandler } from './kserve.ts'
export type { KserveOptions } from './kserve-options.ts'
