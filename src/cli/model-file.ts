import { basename, resolve } from 'node:path'
import { InferenceError } from '../errors.ts'
import type { Capabilities, InferenceErrorCode, ModelMetadata } from '../index.ts'
import { libraryCarrier, servable, type RawValueMetadata, type ValueMetadata } from '../tensor/metadata.ts'
import { checkModelFile } from '../engine/load-failure.ts'
import { type DeclaredValue, type OnnxFile, readOnnxFile, untold } from '../onnx/read-onnx-file.ts'
import { isElementType } from '../tensor/tensor.ts'
import { tryInProcess } from '../run/executors/native/trial-process.ts'

/** Inputs and outputs of a model. */
export interface ModelValues<Value = ValueMetadata> {
  readonly inputs: readonly Value[]
  readonly outputs: readonly Value[]
}

/**
 * Reads the file of a model; `null` if only ONNX Runtime can read it.
 *
 * @throws InferenceError `ERR_MODEL_NOT_FOUND` or `ERR_MODEL_LOAD`.
 */
export async function readModelFile(path: string): Promise<OnnxFile | null> {
  await checkModelFile(basename(path), { path: resolve(path), bytes: null, function: null })
  return readOnnxFile(path)
}

/** Whether the type of an input or output is missing in the file. */
export const leavesOutTypes = ({ inputs, outputs }: ModelValues<DeclaredValue>): boolean =>
  [...inputs, ...outputs].some(({ type }) => type.includes(untold))

/** Whether the shape of an output is missing in the file. ONNX Runtime may infer it. */
export const leavesOutShapes = ({ outputs }: ModelValues<DeclaredValue>): boolean =>
  outputs.some(({ shape }) => shape === null)

/**
 * Inputs and outputs as the file describes them, completed with what ONNX Runtime found when it opened the
 * model.
 */
export function completed(
  file: ModelValues<DeclaredValue> | null,
  opened: OpenedModel | null,
): ModelValues<DeclaredValue> {
  const found = opened === null ? null : { inputs: opened.metadata.inputs, outputs: allOutputs(opened) }
  if (file === null) return found ?? { inputs: [], outputs: [] }
  const byName = (values: readonly DeclaredValue[] = []) =>
    new Map(values.map((value) => [value.name, value]))
  const complete = (values: readonly DeclaredValue[], known: ReadonlyMap<string, DeclaredValue>) => values.map((value): DeclaredValue => {
    const better = known.get(value.name)
    if (better === undefined) return value
    const type = value.type.includes(untold) ? better.type : value.type
    // ONNX Runtime reports a tensor of any rank in the same way as a scalar.
    const isTold = better.shape !== null && (better.shape.length > 0 || !isElementType(type))
    return { ...value, type, shape: isTold ? better.shape : value.shape }
  }) // prettier-ignore
  return {
    inputs: complete(file.inputs, byName(found?.inputs)),
    outputs: complete(file.outputs, byName(found?.outputs)),
  }
}

function allOutputs({ metadata }: OpenedModel): DeclaredValue[] {
  return [...metadata.outputs, ...metadata.unservableOutputs.map((output) => ({ ...output, shape: null }))]
}

/** In ONNX Runtime's form: a value of unknown shape has none. */
export function withShapes({ inputs, outputs }: ModelValues<DeclaredValue>): ModelValues<RawValueMetadata> {
  const shaped = (values: readonly DeclaredValue[]) =>
    values.map((value): RawValueMetadata => ({ ...value, shape: value.shape ?? [] }))
  return { inputs: shaped(inputs), outputs: shaped(outputs) }
}

/**
 * Inputs and outputs of a model as the native executor serves them, even if that is not available here, and
 * the most rows of a run: `null` if that takes a load to know. The model is opened only if its file is
 * incomplete.
 *
 * @param named inputs that its configuration names: initializers among them may be overridden.
 * @throws InferenceError `ERR_MODEL_NOT_FOUND` or `ERR_MODEL_LOAD`.
 */
export async function readValues(
  path: string,
  named: readonly string[] = [],
): Promise<ModelValues & { readonly maxBatchSize: number | null }> {
  const file = await readModelFile(path)
  let opened: OpenedModel | null = null
  if (file === null || leavesOutTypes(file)) opened = await openModel(path)
  else if (leavesOutShapes(file)) opened = await openModel(path).catch(() => null) // signatures need no shapes of outputs
  const values = completed(file, opened)
  const overridden = file?.initializedInputs.filter(({ name }) => named.includes(name)) ?? []
  const { inputs, outputs } = servable(
    basename(path),
    withShapes({ ...values, inputs: [...values.inputs, ...overridden] }),
    libraryCarrier,
  )
  return { inputs, outputs, maxBatchSize: opened?.metadata.maxBatchSize ?? null }
}

/** A model that an engine has opened. */
export interface OpenedModel {
  readonly metadata: ModelMetadata
  readonly executor: Capabilities['executor']
}

/** The child's answer: the model, or why it cannot be opened. */
export type OpeningAnswer = OpenedModel | { readonly code: InferenceErrorCode; readonly message: string }

/** Milliseconds to open and try a model, unless the user sets another limit. */
export const openingLimitMs = 120_000

/**
 * Opens a model with an engine in a child process, which ends afterwards. If ONNX Runtime crashes on the
 * model, that becomes an error.
 *
 * @throws InferenceError as `engine.load()` does; `ERR_MODEL_LOAD` if the process crashed or did not finish.
 */
export async function openModel(path: string, limitMs = openingLimitMs): Promise<OpenedModel> {
  const model = basename(path)
  const answer = await tryInProcess<OpeningAnswer>('cli/opening-child.js', [path], limitMs, false)
  if ('reason' in answer) {
    const message = `Model '${model}' cannot be loaded from ${path}: ${answer.reason}`
    throw new InferenceError('ERR_MODEL_LOAD', message, {
      model,
      name: 'path',
      expected: 'a model that ONNX Runtime can load',
      received: path,
    })
  }
  if ('code' in answer) throw new InferenceError(answer.code, answer.message, { model })
  return answer
}
