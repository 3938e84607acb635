import * as v from 'valibot'
import { listNames } from '../errors.ts'
import type { OutputRows } from '../tensor/metadata.ts'
import { isElementType, isRawType, type ElementType, type TensorType } from '../tensor/tensor.ts'
import type { ImageInput } from './image-options.ts'
import { checkRules, declares, optionsOf, properties, texts, wholeNumber } from './options-schema.ts'

/** An input or output as requests see it; Triton's `ModelInput` and `ModelOutput`. */
export interface TensorConfig {
  /** Its name in the model. */
  name: string
  /** The type of the elements, checked against the model. Default: the model's. */
  type?: ElementType
  /**
   * Dims in requests, -1 for a variable one; without the batch dimension where `maxBatchSize` is not 0. They may fix
   * dimensions that are variable in the model. Default: the model's.
   */
  dims?: readonly number[]
  /**
   * Dims in the model for the same elements, with -1 for each variable dimension of `dims`, in their order. Default:
   * `dims`.
   */
  reshape?: readonly number[]
  /**
   * The dimension of the model's tensor that counts the rows of a batch, from 0; it must be variable. For a tensor
   * without `dims` and with elements of whole bytes. Default: the first, or one that the graph proves to count rows
   * (see `metadata`).
   */
  batchAxis?: number
}

/** An input of a model. */
export interface InputConfig extends TensorConfig {
  /**
   * Whether the rows of a batch share one value of this input, which has no batch dimension. Requests with different
   * values go to different buckets. Not with `dims` or `batchAxis`. Default `false`, or `true` for an input of fixed
   * shape next to others with a batch dimension.
   */
  shared?: boolean
  /**
   * Accepts encoded images: a `Buffer` or `Uint8Array` is decoded (with sharp) into one row, with these options. Pass
   * decoded pixels as a tensor. The limits of a request also apply while its images are decoded. Not for a model with
   * sequences, nor with `shared` or a `batchAxis` other than 0. Default: none.
   */
  image?: ImageInput
}

/** An output of a model. */
export interface OutputConfig extends TensorConfig {
  /**
   * Which row each entry belongs to, for an output that does not have one entry per row. Checked in every run: an index
   * of no row, or counts that do not add up, reject the request whose run alone has them (`ERR_EXECUTION`). Not with
   * `batchAxis` or `sequence`. Default: one entry per row.
   */
  rows?: OutputRows
  /** Class names by index, for an output of class scores; used by `model.classification()`. Default: none. */
  labels?: readonly string[]
}

/** Schema of the type of a tensor's elements. */
export const elementType = {
  ...v.custom<ElementType>(isElementType),
  expects: 'the type of the elements of a tensor, such as float32',
}
/** Schema of element types that have a JavaScript array: for functions, and tensors made by hand. */
export const carriedType = {
  ...v.custom<TensorType>((given) => isElementType(given) && !isRawType(given)),
  expects: 'a type of tensors that JavaScript has an array for, such as float32, uint8 or string',
}
/** Schema of dims. */
export const dims = v.array(v.pipe(v.number(), v.integer('a whole number')))
const entries = {
  name: v.pipe(v.string(), v.minLength(1, 'the name of a tensor')),
  type: v.optional(elementType),
  dims: v.optional(v.pipe(dims, v.minLength(1, 'at least one dimension'))),
  reshape: v.optional(dims),
  batchAxis: v.optional(wholeNumber(0, Infinity)),
}

/** Schema of an entry of `inputs`. */
export const inputSchema = declares<InputConfig>()({
  ...entries,
  shared: v.optional(v.boolean()),
  image: v.optional(properties),
})
const rowsSchema = optionsOf({
  index: v.optional(wholeNumber(0)),
  of: v.optional(entries.name),
  counts: v.optional(entries.name),
})
/** Schema of an entry of `outputs`. */
export const outputSchema = declares<OutputConfig>()({
  ...entries,
  labels: v.optional(texts),
  rows: v.optional(rowsSchema),
})

type NamedDims = {
  readonly name: string
  readonly dims?: readonly (number | string)[] | undefined
}

/**
 * Checks that tensors differ in name, and that their dims are lengths, or -1.
 *
 * @param words the valid dims. Dims that are names are valid in any case.
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkNamesAndDims(
  model: string,
  option: 'inputs' | 'outputs',
  tensors: readonly NamedDims[],
  words = 'dims of at least 1, or -1 for a variable one',
): void {
  for (const [index, { name, dims }] of tensors.entries()) {
    const at = `${option}[${index}]`
    const isTaken = tensors.findIndex((other) => other.name === name) !== index
    const strange = dims?.find((dim) => typeof dim === 'number' && dim < 1 && dim !== -1)
    checkRules(model, [
      [isTaken, `${at}.name`, 'a name of its own', name],
      [strange !== undefined, `${at}.dims`, words, strange],
    ])
  }
}

type Entry = Pick<v.InferOutput<typeof inputSchema>, keyof TensorConfig | 'shared'> &
  Pick<v.InferOutput<typeof outputSchema>, 'rows'>

/**
 * Checks the entries of `inputs` or `outputs` for contradictions, by Triton's rules.
 *
 * @param batched whether `maxBatchSize` is above 0; `undefined` if the model determines it.
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkTensors(
  model: string,
  option: 'inputs' | 'outputs',
  tensors: readonly Entry[],
  batched: boolean | undefined,
): void {
  checkNamesAndDims(model, option, tensors)
  const withoutRows = 'to be omitted for a model whose maxBatchSize is 0'
  for (const [index, { dims, reshape, batchAxis, shared = false, rows }] of tensors.entries()) {
    const at = `${option}[${index}]`
    if (rows !== undefined)
      checkRules(model, [
        [(rows.index === undefined) === (rows.counts === undefined), `${at}.rows`, 'either index or counts', `the keys ${listNames(Object.keys(rows), '(none)')}`],
        [rows.of !== undefined && rows.index === undefined, `${at}.rows.of`, 'to be omitted beside counts', rows.of],
        [batchAxis !== undefined, `${at}.batchAxis`, 'to be omitted beside rows', batchAxis],
        [reshape !== undefined, `${at}.reshape`, 'to be omitted beside rows', reshape],
        [batched === false, `${at}.rows`, withoutRows, rows],
      ]) // prettier-ignore
    checkRules(model, [
      [shared && batchAxis !== undefined, `${at}.batchAxis`, 'to be omitted for an input that is shared', batchAxis],
      [shared && batched === false, `${at}.shared`, withoutRows, shared],
      [batchAxis !== undefined && batched === false, `${at}.batchAxis`, withoutRows, batchAxis],
      [shared && dims !== undefined, `${at}.dims`, 'to be omitted beside shared', dims],
      [(batchAxis ?? 0) > 0 && dims !== undefined, `${at}.dims`, 'to be omitted beside batchAxis', dims],
    ]) // prettier-ignore
    if (reshape === undefined) continue
    const [given, wanted] = [stretches(dims ?? []), stretches(reshape)]
    const shown = `dims [${dims?.join(', ')}] has`
    const strange = reshape.find((dim) => dim < 1 && dim !== -1)
    checkRules(model, [
      [strange !== undefined, `${at}.reshape`, 'dims of at least 1, or -1 for a variable one', strange],
      [dims === undefined, `${at}.reshape`, 'to be given beside dims', reshape],
      [reshape.length === 0 && batched === false, `${at}.reshape`, 'at least one dimension for a model whose maxBatchSize is 0', reshape],
      [given.length !== wanted.length, `${at}.reshape`, `${given.length - 1} variable dims, as ${shown}`, reshape],
      [given.some((count, part) => count !== wanted[part]), `${at}.reshape`, `as many elements as ${shown}, between variable dims as well`, reshape],
    ]) // prettier-ignore
  }
}

/** Numbers of elements before, between and after variable dims. */
function stretches(dims: readonly number[]): number[] {
  const counts = [1]
  for (const dim of dims) {
    if (dim === -1) counts.push(1)
    else counts[counts.length - 1]! *= dim
  }
  return counts
}
