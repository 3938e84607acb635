export { defineFunction } from '../../options/function-module.ts'
export type {
  BatchInput,
  FunctionBatch,
  FunctionContext,
  FunctionInstance,
  FunctionOutputs,
  FunctionResult,
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
export type {
  FunctionDeclaration,
  FunctionFeed,
  FunctionInput,
  FunctionOutput,
  FunctionSignature,
} from '../../options/function-module.ts'
export { nonMaxSuppression, type NonMaxSuppressionOptions } from './non-max-suppression.ts'
export { softmax } from './graph-functions.ts'
export { classification, topK, type LabelledTopKOptions, type TopKOptions } from './graph-functions.ts'
