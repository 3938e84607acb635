import { Tensor, type InferenceSession } from 'onnxruntime-common'
import type { PaddingConfig } from '../../options/model-config.ts'

/**
 * The inputs of a text encoder. With any other input padding is not tried. The mask keeps padding from
 * changing the answer.
 */
const textInputs = ['input_ids', 'attention_mask', 'token_type_ids']
/** Lengths of the trial texts: neither divides the other. */
const shortLength = 7
const longLength = 12
/** Allowed difference of floats, relative to the largest: a longer text is summed in another order. */
const tolerance = 1e-3

/** The ids of texts. */
export interface TextTokens {
  /** The padding id. */
  readonly padId: number
  /** Number of ids. */
  readonly vocabularySize: number
  /** Most ids of a text; `Infinity` if unknown. */
  readonly longestText: number
}

/** The part of a session that a trial uses. */
type TriedSession = Pick<InferenceSession, 'inputMetadata' | 'outputNames' | 'run'>

/** Runs a text of ids, padded to `length`. */
type RunText = (ids: readonly number[], length?: number) => Promise<InferenceSession.ReturnType>

/**
 * Finds out by trial runs how texts of different lengths can share runs of a model. It runs a text alone, as
 * the beginning of a longer one, and padded. Outputs with the text's length are cut back to it; all must be
 * the same as alone. No text is padded to a length that the model does not take.
 *
 * @returns `null` if they cannot share runs: the model is no text encoder, an output has the length more than
 * once, or padding changes the answer.
 */
export async function findTextPadding(
  session: TriedSession,
  tokens: TextTokens,
  sizes: PaddingConfig['sizes'],
): Promise<PaddingConfig[] | null> {
  const { inputMetadata } = session
  if (!isTextEncoder(inputMetadata)) return null
  const run: RunText = (ids, length = ids.length) =>
    session.run(
      Object.fromEntries(inputMetadata.map((input) => [input.name, textInput(input, ids, length, tokens)])),
    )
  const text = textOf(longLength, tokens)
  try {
    const short = await run(text.slice(0, shortLength))
    const long = await run(text)
    const outputs = session.outputNames.flatMap((name) =>
      axesThatDiffer(short[name]!, long[name]!).map((dim) => ({ name, dim })),
    )
    if (
      new Set(outputs.map(({ name }) => name)).size < outputs.length ||
      outputs.some(({ dim }) => dim === 0)
    )
      return null
    const isUnchanged = async (length: number) => {
      const filled = await run(text.slice(0, shortLength), length)
      return session.outputNames.every((name) =>
        areClose(short[name]!, cutBack(filled[name]!, outputs.find((output) => output.name === name)?.dim)),
      )
    }
    if (!(await isUnchanged(longLength))) return null
    const taken = Array.isArray(sizes) ? upTo(tokens.longestText, sizes) : sizes
    const isTaken = !Array.isArray(taken) || (await isUnchanged(Math.max(...taken)).catch(() => false))
    return paddingOf(inputMetadata, tokens, outputs, isTaken ? taken : 'longest')
  } catch {
    return null // the model does not take these lengths
  }
}

/** The given lengths up to the longest text. If some are longer, the longest text is the last length. */
function upTo(longest: number, sizes: readonly number[]): readonly number[] {
  const shorter = sizes.filter((size) => size <= longest)
  return shorter.length === sizes.length ? sizes : [...shorter, longest]
}

function isTextEncoder(
  inputs: readonly InferenceSession.ValueMetadata[],
): inputs is InferenceSession.TensorValueMetadata[] {
  const isOfAnyLength = (input: InferenceSession.ValueMetadata) =>
    input.isTensor &&
    input.type === 'int64' &&
    input.shape.length === 2 &&
    input.shape.every((dim) => typeof dim === 'string')
  const names = inputs.map(({ name }) => name)
  return (
    names.includes('input_ids') &&
    names.includes('attention_mask') &&
    inputs.every((input) => textInputs.includes(input.name) && isOfAnyLength(input))
  )
}

function paddingOf(
  inputs: readonly { name: string }[],
  { padId }: TextTokens,
  outputs: { name: string; dim: number }[],
  sizes: PaddingConfig['sizes'],
): PaddingConfig[] {
  return inputs.map(({ name }) => ({
    input: name,
    dim: 1,
    value: name === 'input_ids' ? padId : 0,
    ...(sizes !== undefined && { sizes }),
    ...(name === 'input_ids' && outputs.length > 0 && { outputs }),
  }))
}

/** A text without the padding id. */
function textOf(length: number, { padId, vocabularySize }: TextTokens): number[] {
  const step = 7
  return Array.from({ length: length + 1 }, (_, index) => (step * (index + 1)) % vocabularySize)
    .filter((id) => id !== padId)
    .slice(0, length)
}

function textInput(
  { name }: { name: string },
  ids: readonly number[],
  length: number,
  { padId }: TextTokens,
): Tensor {
  const [own, rest] =
    name === 'input_ids' ? [ids, padId] : [ids.map(() => (name === 'attention_mask' ? 1 : 0)), 0]
  return new Tensor(
    'int64',
    BigInt64Array.from({ length }, (_, index) => BigInt(own[index] ?? rest)),
    [1, length],
  )
}

function axesThatDiffer(a: Tensor, b: Tensor): number[] {
  return [...a.dims.keys()].filter((axis) => a.dims[axis] !== b.dims[axis])
}

/** The part of a value that belongs to the short text. */
function cutBack(value: Tensor, axis: number | undefined): number[] {
  const numbers = Array.from(value.data as ArrayLike<number | bigint>, Number)
  if (axis === undefined) return numbers
  const inner = value.dims.slice(axis + 1).reduce((product, dim) => product * dim, 1)
  return numbers.filter((_, index) => Math.floor(index / inner) % value.dims[axis]! < shortLength)
}

function areClose(alone: Tensor, filled: readonly number[]): boolean {
  const numbers = Array.from(alone.data as ArrayLike<number | bigint>, Number)
  const largest = numbers.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  return (
    numbers.length === filled.length &&
    numbers.every((value, index) => Math.abs(value - filled[index]!) <= tolerance * largest)
  )
}
