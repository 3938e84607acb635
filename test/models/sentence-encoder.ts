import { readFileSync } from 'node:fs'
import { graph } from './builder.ts'
import { mulberry32, uniform } from './random.ts'
import { bertTokenizer, vocabularyOf } from './tokenizer.ts'

const sentences = new URL('../../examples/embeddings/sentences.txt', import.meta.url)
const longestText = 512
const width = 96

/**
 * The files of the model that `examples/embeddings` runs where it is given no other, by their names. It has learnt nothing: each word of its sentences has a
 * direction of its own, the longer the fewer sentences have the word, so texts are near each other that share rare words. It takes and gives what a BERT does.
 */
export function sentenceEncoder(): ReadonlyMap<string, Uint8Array | string> {
  const texts = readFileSync(sentences, 'utf8')
    .trimEnd()
    .split('\n')
    .map((text) => new Set(text.toLowerCase().match(/[a-z]+/g)))
  const vocabulary = vocabularyOf([...new Set(texts.flatMap((words) => [...words]))].toSorted())
  const rarity = (token: string) =>
    Math.log(texts.length / Math.max(1, texts.filter((words) => words.has(token)).length))
  const files = Object.entries(bertTokenizer(longestText, vocabulary)).map(
    ([name, content]) => [name, `${JSON.stringify(content)}\n`] as const,
  )
  return new Map<string, Uint8Array | string>([
    ...files,
    ['onnx/model.onnx', encoder(vocabulary.map((token) => (isOfWords(token) ? rarity(token) : 0)))],
  ])
}

/** Neither `[CLS]` nor a full stop means anything by itself. */
function isOfWords(token: string): boolean {
  return /^(##)?[a-z]+$/.test(token)
}

function encoder(lengths: readonly number[]): Uint8Array {
  const random = mulberry32(7)
  const weights = Float32Array.from(lengths.flatMap((length) => [...uniform(random, width, length)]))
  return graph('sentence-encoder')
    .input('input_ids', 'int64', ['batch_size', 'sequence_length'])
    .input('attention_mask', 'int64', ['batch_size', 'sequence_length'])
    .initializer('words', 'float32', [lengths.length, width], weights)
    .initializer('last', 'int64', [1], [-1n])
    .node('Gather', ['words', 'input_ids'], ['directions'])
    .node('Cast', ['attention_mask'], ['mask'], { to: 1 })
    .node('Unsqueeze', ['mask', 'last'], ['mask_of_each'])
    .node('Mul', ['directions', 'mask_of_each'], ['last_hidden_state'])
    .output('last_hidden_state', 'float32', ['batch_size', 'sequence_length', width])
    .build()
}
