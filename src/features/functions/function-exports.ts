export { defineFunction } from '../../options/function-module.ts'
export type {
  BatchInput,
  FunctionBatch,
  FunctionContext,
  FunctionDeclaration,
  FunctionFeed,
  FunctionInput,
  FunctionInstance,
  FunctionOutput,
  FunctionOutputs,
  FunctionResult,
  FunctionSignature,
  ModelFunction,
} from '../../options/function-module.ts'
export type {
  FunctionConfig,
  FunctionHere,
  FunctionInstanceGroup,
  FunctionOfGraph,
  FunctionOfModule,
  FunctionOptions,
  FunctionWorkerOptions,
} from '../../options/function-config.ts'
export {
  classification,
  softmax,
  topK,
  type LabelledTopKOptions,
  type TopKOptions,
} from './graph-functions.ts'
export { nonMaxSuppression, type NonMaxSuppressionOptions } from './non-max-suppression.ts'
