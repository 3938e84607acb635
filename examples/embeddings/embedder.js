import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import { Tensor } from 'zerohop'

/** Most tokens of one run, filled up ones with them: what bounds its time and memory, however long the texts are. */
const maxBatchCost = 4096
/** Most texts of one run. Rows of an encoder are independent: giving it says so. */
const maxBatchSize = 128
/** Longer texts are cut; no BERT takes more. */
const longestText = 512

/**
 * Loads an encoder of sentences from a folder as the Hub has them: `tokenizer.json`, `tokenizer_config.json`, `onnx/model.onnx`. Texts that are embedded at the
 * same time share runs with others of about their length.
 */
export async function loadEmbedder(engine, folder) {
  const readJson = async (name) => JSON.parse(await readFile(join(folder, name), 'utf8'))
  const settings = await readJson('tokenizer_config.json')
  const tokenizer = new Tokenizer(await readJson('tokenizer.json'), settings)
  const mostTokens = Math.min(settings.model_max_length ?? longestText, longestText)

  const path = join(folder, 'onnx', 'model.onnx')
  const { inputs, outputs } = (await engine.load('encoder', { path })).metadata
  const states = outputs.find(({ name }) => name === 'last_hidden_state' || name === 'token_embeddings')?.name
  const known = Object.keys(valuesOf([]))
  const unknown = inputs.find(({ name }) => !known.includes(name))
  if (unknown !== undefined)
    throw new Error(`${path}: expected no inputs but ${known.join(', ')}, received ${unknown.name}`)
  if (states === undefined)
    throw new Error(
      `${path}: expected an output last_hidden_state or token_embeddings, received ${outputs.map(({ name }) => name).join(', ')}`,
    )
  const model = await engine.load('encoder', {
    path,
    maxBatchSize,
    // To the longest of a run; the mask is 0 there, and the states are cut back to each text's own.
    padding: inputs.map(({ name }) => ({
      input: name,
      dim: 1,
      sizes: 'longest',
      ...(name === 'input_ids' && {
        value: tokenizer.token_to_id(settings.pad_token) ?? 0,
        outputs: [{ name: states, dim: 1 }],
      }),
    })),
    outputs: [{ name: states }],
    dynamicBatching: { cost: { input: 'input_ids', dim: 1 }, maxBatchCost },
  })

  /** The direction of a text: the mean over its tokens, of length 1. */
  const embed = async (text) => {
    const ids = firstTokens(tokenizer.encode(text).ids, mostTokens)
    const values = valuesOf(ids)
    const feeds = Object.fromEntries(
      inputs.map(({ name }) => [
        name,
        new Tensor('int64', BigInt64Array.from(values[name], BigInt), [1, ids.length]),
      ]),
    )
    const {
      [states]: { data, dims },
    } = await model.infer(feeds)
    return normalised(sumOfRows(data, dims[2]))
  }
  return { embed, stats: () => model.stats() }
}

/** What a text is to a BERT; not every model takes all three. */
function valuesOf(ids) {
  return { input_ids: ids, attention_mask: ids.map(() => 1), token_type_ids: ids.map(() => 0) }
}

/** The last token says that the text ends. */
function firstTokens(ids, count) {
  return ids.length <= count ? ids : [...ids.slice(0, count - 1), ids.at(-1)]
}

function sumOfRows(data, width) {
  const sum = new Float32Array(width)
  for (let index = 0; index < data.length; index++) sum[index % width] += data[index]
  return sum
}

function normalised(vector) {
  const length = Math.hypot(...vector) || 1
  return vector.map((value) => value / length)
}
