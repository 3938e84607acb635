import { noOptions } from '../../src/options/infer-options.ts'
import { InferRequest, type PriorityLevel } from '../../src/request/infer-request.ts'

const nothing = (): void => {}

/** A request of which only its place in the queue matters. */
export class WaitingRequest extends InferRequest {
  constructor(rows: number, bucketKey: string, level: PriorityLevel) {
    super({ rows, bucketKey, whole: false, data: [], dims: null }, level, noOptions, nothing, nothing)
  }
}
