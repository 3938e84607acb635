import type { TensorMetadata } from '../../tensor/metadata.ts'
import type { Session } from './onnxruntime.ts'

/** An open session with what of it is served. */
export interface OpenModel {
  readonly session: Session
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
}
