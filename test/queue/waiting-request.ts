import { noOptions } from '../../src/options/infer-options.ts'
import { InferRequest, type PriorityLevel } from '../../src/request/infer-request.ts'

const nothing = (): void => {}

/** A request without data, for tests of the queue. */
export class WaitingRequest extends InferRequest {
  constructor(rows: number, bucketKey: string, level: PriorityLevel) {
    super({ rows, bucketKey, whole: false, data: [], dims: null }, level, noOptions, nothing, nothing)
  }
}
