import { lengthOf, multiply, type Dim } from '../dims.ts'
import { checkRank, like, together, type Operation, type Rule, type Rules } from '../operation.ts'
import { elementType, tensor, type Rows, type Tensor } from '../followed-values.ts'
import { dependent, notFollowed } from '../not-proved.ts'

/**
 * Recurrent layers and attention: they combine the steps of a sequence, whose dimension must not be that of
 * the rows. Source: onnx.ai/onnx/operators/onnx__NAME.html, com.microsoft: ContribOperators.md.
 */

/**
 * State inputs besides the sequence. Initial states of a layer are `[directions, N, hidden]` or `[N,
 * directions, hidden]`.
 */
function recurrent(states: readonly number[]): Rule {
  return (op) => {
    const isBatchFirst = op.int('layout', 0) === 1
    const batch = isBatchFirst ? 0 : 1
    for (const index of [1, 2, 3, 7]) if (op.has(index)) op.shared(index, 'the weights')
    const rows = rowsOf(op, [
      { index: 0, axis: batch },
      { index: 4, axis: 0 },
      ...states.map((index) => ({ index, axis: batch })),
    ])
    const of = op.raw(0)
    checkRank(of, 3)
    const recurrence = op.raw(2).shape
    const [directions, hidden] = [recurrence[0]!, recurrence[2]!]
    const [steps, count] = [of.shape[1 - batch]!, of.shape[batch]!]
    const y: Dim[] = isBatchFirst ? [count, steps, directions, hidden] : [steps, directions, count, hidden]
    const state: Dim[] = isBatchFirst ? [count, directions, hidden] : [directions, count, hidden]
    const made = (shape: readonly Dim[], axis: number) =>
      tensor(of.type, shape, { rows: rows && { ...rows, axis } })
    return [made(y, isBatchFirst ? 0 : 2), made(state, batch), made(state, batch)]
  }
}

interface Part {
  readonly index: number
  /** The axis of its rows; -1 for an input that all rows share. */
  readonly axis: number
  /** Whether a single one may serve all rows. */
  readonly fits?: boolean
}

/** The common rows of inputs. None of them may be the same for all rows. */
function rowsOf(op: Operation, parts: readonly Part[]): Rows | null {
  const rows = together(
    parts.map(({ index, axis }) => ({ of: op.optional(index), axis, what: `input ${index}` })),
  )
  if (rows === null) return null
  const shared = parts.find(
    ({ index, axis, fits }) => axis !== -1 && fits !== true && op.has(index) && op.raw(index).rows === null,
  )
  return shared === undefined
    ? { axis: 0, ...rows }
    : dependent(`input ${shared.index} is shared by all rows, but must have an entry for each`)
}

const batchFirst = (...indices: readonly number[]): Part[] => indices.map((index) => ({ index, axis: 0 }))
const sharedParts = (...indices: readonly number[]): Part[] => indices.map((index) => ({ index, axis: -1 }))

/** Keys and values for later steps. The sizes of their heads are not followed. */
function kept(op: Operation, type: number, count: Dim, rows: Rows | null, axis: number): Tensor[] {
  return Array.from({ length: Math.max(0, op.outputCount - 1) }, (_, output) => {
    const sizes = [0, 1, 2].map((size) => lengthOf(`${op.label} ${output}.${size}`))
    return tensor(type, axis === 0 ? [count, ...sizes] : [2, count, ...sizes], {
      rows: rows && { ...rows, axis },
    })
  })
}

/** A mask is broadcast to the scores `[N, heads, queries, keys]` from the right. */
function mask(op: Operation, index: number): Part {
  return { index, axis: op.has(index) && op.raw(index).shape.length === 4 ? 0 : -1, fits: true }
}

/** Since opset 23: `Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen`. */
const Attention: Rule = (op) => {
  const rows = rowsOf(op, [...batchFirst(0, 1, 2, 4, 5, 6), mask(op, 3)])
  const [q, v] = [op.raw(0), op.raw(2)]
  const size = v.shape.at(-1)!
  const isFlat = q.shape.length === 3
  const [heads, keyHeads] = [op.int('q_num_heads', 1), op.int('kv_num_heads', 1)]
  const hidden =
    !isFlat || heads === keyHeads
      ? size
      : typeof size === 'number'
        ? (size / keyHeads) * heads
        : notFollowed('the size of its heads is not known')
  return [
    tensor(q.type, [...q.shape.slice(0, -1), hidden], { rows }),
    ...kept(op, q.type, q.shape[0]!, rows, 0),
  ]
}

const thirdOf = (size: Dim): Dim =>
  typeof size === 'number' ? size / 3 : notFollowed('the size of its heads is not known')

/**
 * @param at indices of inputs: the mask, the past, a bias of scores (-1 for none), and those that all rows
 * share.
 */
function fusedAttention(at: {
  readonly mask: number
  readonly past: number
  readonly bias: number
  readonly shared: readonly number[]
}): Rule {
  return (op) => {
    const rows = rowsOf(op, [
      ...batchFirst(0, at.mask),
      ...sharedParts(...at.shared),
      { index: at.past, axis: 1 },
      mask(op, at.bias),
    ])
    const of = op.raw(0)
    checkRank(of, 3)
    const hidden = op.ints('qkv_hidden_sizes')?.[2] ?? thirdOf(op.raw(1).shape[1]!)
    const type = op.operator === 'QAttention' ? elementType.float32 : of.type
    return [
      tensor(type, [of.shape[0]!, of.shape[1]!, hidden], { rows }),
      ...kept(op, type, of.shape[0]!, rows, 1),
    ]
  }
}

function checkNoOthers(op: Operation, from: number): void {
  if (op.inputs.slice(from).some((value) => value !== null))
    notFollowed('its further inputs are not followed')
}

/** `query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value`. */
const MultiHeadAttention: Rule = (op) => {
  checkNoOthers(op, 8)
  const rows = rowsOf(op, [...batchFirst(0, 1, 2, 4, 6, 7), ...sharedParts(3), mask(op, 5)])
  const query = op.raw(0)
  const value = op.optional(2)
  const isPacked = query.shape.length === 5
  const hidden = isPacked
    ? multiply(query.shape[2]!, query.shape[4]!)
    : value === null || value.shape.length === 5
      ? query.shape[2]!
      : value.shape.length === 4
        ? multiply(value.shape[1]!, value.shape[3]!)
        : value.shape[2]!
  return [
    tensor(query.type, [query.shape[0]!, query.shape[1]!, hidden], { rows }),
    ...kept(op, query.type, query.shape[0]!, rows, 0),
  ]
}

/**
 * Rotation angles by position. Positions are given per entry of each row, or in one dimension for all rows; a
 * cache of three dimensions is per row.
 */
function rotary(positions: number, caches: readonly number[]): Rule {
  return (op) => {
    const byRank = (index: number, rank: number): Part => ({
      index,
      axis: op.has(index) && op.raw(index).shape.length >= rank ? 0 : -1,
    })
    const size = op.raw(0).shape.at(-1)!
    if (typeof size !== 'number' || size % 2 !== 0)
      notFollowed('cannot tell whether its angles come in pairs') // ONNX Runtime does not write an element that is left over
    rowsOf(op, [...batchFirst(0), byRank(positions, 2), ...caches.map((cache) => byRank(cache, 3))])
    return like(op.raw(0))
  }
}

/**
 * `input_ids, segment_ids, word, position and segment embeddings, gamma, beta, mask, position_ids`:
 * normalises the sum of embeddings.
 */
const EmbedLayerNormalization: Rule = (op) => {
  const rows = rowsOf(op, [
    ...batchFirst(0, 1, 7),
    ...sharedParts(2, 3, 4, 5, 6),
    { index: 8, axis: 0, fits: true },
  ])
  const [of, { type, shape }] = [op.raw(0), op.raw(2)]
  const output = tensor(type, [...of.shape, shape[1]!], { rows })
  return [output, tensor(elementType.int32, [of.shape[0]!], { rows }), output]
}

/**
 * Like {@link EmbedLayerNormalization} with quantised embeddings, whose scales and zero points all rows
 * share: `..., gamma, beta, mask`, and those.
 */
const QEmbedLayerNormalization: Rule = (op) => {
  const rows = rowsOf(op, batchFirst(0, 1, 7))
  const of = op.raw(0)
  return [
    tensor(elementType.float32, [...of.shape, op.shared(2).shape[1]!], { rows }),
    tensor(elementType.int32, [of.shape[0]!], { rows }),
  ]
}

/** It computes one scale for each step over all rows. */
const DynamicQuantizeLSTM: Rule = (op) =>
  op.data(0).rows === null
    ? notFollowed('its shapes are not followed')
    : dependent('it makes one scale of its whole input')

/** Scores of the next token, without those that would repeat an n-gram. */
const NGramRepeatBlock: Rule = (op) => {
  rowsOf(op, batchFirst(0, 1))
  return like(op.raw(1))
}

export const recurrence: Rules = {
  LSTM: recurrent([5, 6]),
  GRU: recurrent([5]),
  RNN: recurrent([5]),
  Attention,
  RotaryEmbedding: rotary(3, [1, 2]),
  // input, weights, bias, mask_index, past, attention_bias, past_sequence_length
  'com.microsoft:Attention': fusedAttention({ mask: 3, past: 4, bias: 5, shared: [1, 2, 6] }),
  // input, weights, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point, past
  'com.microsoft:QAttention': fusedAttention({ mask: 5, past: 8, bias: -1, shared: [1, 2, 3, 4, 6, 7] }),
  'com.microsoft:MultiHeadAttention': MultiHeadAttention,
  'com.microsoft:RotaryEmbedding': rotary(1, [2, 3]),
  'com.microsoft:EmbedLayerNormalization': EmbedLayerNormalization,
  'com.microsoft:QEmbedLayerNormalization': QEmbedLayerNormalization,
  'com.microsoft:DynamicQuantizeLSTM': DynamicQuantizeLSTM,
  'com.microsoft:NGramRepeatBlock': NGramRepeatBlock,
}
