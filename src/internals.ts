/**
 * What the tools of this repository need of the engine beyond its public names: `zerohop/internals`.
 *
 * **Unstable.** Any release may change or remove a name. Only packages that are released together with zerohop, and ask for
 * the same version of it, may import this.
 *
 * @module
 */

// The queue's policy and what run times are estimated from, for the simulator.
export { IndexedHeap } from './base/indexed-heap.ts'
export { batchReasons, defaultPaddingShare, resolveLevels } from './options/batching.ts'
export { fullBatchRows } from './schedule/buckets.ts'
export type { BatchLimits, LevelOptions } from './options/batching.ts'
export { defaultInline } from './options/engine-options.ts'
export { maxInstances } from './options/instance-groups.ts'
export { FairShare } from './run/thread-time.ts'
export { InlineBudget, RunPlace } from './run/thread-time.ts'
export { leftOfRunMs } from './run/thread-time.ts'
export { estimatedAnswerMs } from './schedule/answer-estimate.ts'
export { ArrivalRate } from './schedule/batch-sizer.ts'
export { RunTimes } from './schedule/estimates.ts'
export { LatencyTarget } from './schedule/batch-sizer.ts'
export { batchSizesToTry } from './schedule/calibration.ts'
export { InferRequest, PriorityLevels, expiresAtMs } from './request/infer-request.ts'
export { noOptions } from './options/infer-options.ts'
export type { QueueOwner } from './schedule/request-queue.ts'
export { RequestQueue } from './schedule/request-queue.ts'

// What is measured, and the form of recordings.
export {
  batchReasonsOf,
  batchSizesOf,
  paddingOf,
  serverFigures,
  spanOf,
} from './observe/statistics-difference.ts'
export type { ServerFigures } from './observe/statistics-difference.ts'
export { LateTimers } from './observe/model-counts.ts'
export type { Arrival, ArrivalRun } from './observe/arrival.ts'
export { isRecordedConfig, levelsOf } from './observe/arrival.ts'
export type { Frame } from './adapters/inspector/frame.ts'

// Tensors that are made up, read from files and compared.
export { prefixedStrings } from './tensor/elements.ts'
export { batchAxisOf, notStackable, shownShape } from './tensor/metadata.ts'
export { fromSmallFloat, isNonFinite, isSmallFloat, toSmallFloat } from './tensor/small-floats.ts'
export {
  byteLengthOf,
  elementCount,
  isElementType,
  isFloatType,
  isPacked,
  isRawType,
  isTensorLike,
  makeTensor,
  storageLength,
  storageOf,
  toStorage,
} from './tensor/tensor.ts'

// This machine, and what is installed on it.
export { systemClock } from './base/clock.ts'
export type { Clock } from './base/clock.ts'
export { libraryVersion } from './base/own-package.ts'
export { packageFolder } from './base/own-package.ts'
export { OwnProgram } from './base/own-program.ts'
export { availableCores } from './base/available-resources.ts'
export { availableMemory } from './base/available-resources.ts'
export { installedVersion } from './run/executors/native/native-ort.ts'

// Files of models, and others.
export {
  NotReadable,
  checkRegularFile,
  readRegularFile,
  readRegularText,
  readRegularTextSync,
  withRegularFile,
} from './base/files.ts'
export { isFolder, readModelFolder } from './features/triton-repository/model-folder.ts'
export type { VersionConfig } from './features/triton-repository/model-folder.ts'
export { ExternalFiles, hashOfFile } from './models/compiled-models/model-content.ts'
export { readModelFile } from './cli/model-file.ts'

// Errors, and the command line's way with them.
export { listNames } from './errors.ts'
export { InferenceError, invalidArgument } from './errors.ts' // the class too: without loading the engine
export { messageOf } from './base/message-of.ts'
export { isDuration } from './options/plain-options.ts'
export {
  escaped,
  failureOf,
  fileErrorText,
  oneLine,
  printJson,
  runProgram,
  tell,
  tellLine,
  usualExitCodes,
} from './cli/command-line.ts'
export { isSameFile } from './cli/command-line.ts'

// Arithmetic.
export { median, mulberry32 } from './base/numbers.ts'
export type { Random } from './base/numbers.ts'

// What the tests of ending processes look into.
export { ControlBlock } from './run/executors/binding/control-block.ts'
export { loadBinding } from './native/addon.ts'
export { CompletionHub } from './run/executors/native/native-executor.ts'

/** Resolves when the compiled forms of the models that an engine has loaded are sealed, or that was given up. */
export async function modelsCompiled(engine: unknown): Promise<void> {
  const resources = await import('./engine/engine-resources.ts') // few tools need an engine
  return resources.modelsCompiled(engine)
}
