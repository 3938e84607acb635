// Full: it packs and installs an example.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { env, pipeline } from '@huggingface/transformers'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { bert } from '../models/pipelines.ts'
import { mulberry32 } from '../models/random.ts'
import { sentenceEncoder } from '../models/sentence-encoder.ts'
import { words } from '../models/tokenizer.ts'
import { packedExample, startExample } from './packed-example.ts'

env.allowRemoteModels = false
env.useFSCache = false

const example = new URL('../../examples/embeddings/', import.meta.url)

describe('sentences', () => {
  let folder = ''

  beforeAll(() => void (folder = packedExample('embeddings')))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('that are near a question are found, as its README shows', async () => {
    const { code, text } = await startExample(
      folder,
      'main.js',
      {},
      { args: ['a train at night', 'pepper soup'] },
    ).ended()
    const shown = /^a train at night\n(?: {2}[\d.]+ {2}.*\n)+/m.exec(
      readFileSync(new URL('README.md', example), 'utf8'),
    )![0]
    expect(code).toBe(0)
    expect(text).toMatch(/^60 sentences in \d+ runs and [\d.]+ s; \d+\.\d % of what was run is padding$/m)
    expect(text).toContain(shown.trimEnd())
    expect(text).toMatch(/^pepper soup\n {2}0\.\d+ {2}The soup was too hot and had too much pepper\.$/m)
  })

  it('have a model beside them that is made by this repository, and is as it makes it', () => {
    for (const [name, content] of sentenceEncoder())
      expect(readFileSync(new URL(`model/${name}`, example)).equals(Buffer.from(content)), name).toBe(true)
  })

  it('of all lengths get the vectors that transformers.js gives each by itself, in runs within a budget', async () => {
    const { root, name } = bert('feature-extraction')
    const random = mulberry32(31)
    // Many are of one length, of which not all go into a budget; one is too long.
    const lengths = Array.from({ length: 300 }, (_, index) =>
      index === 7 ? 600 : index % 2 === 0 ? 100 : 1 + Math.floor(200 * random() ** 3),
    )
    const texts = lengths.map((length) =>
      Array.from({ length }, () => words[Math.floor(random() * words.length)]!).join(' '),
    )
    writeFileSync(join(folder, 'texts.json'), JSON.stringify(texts))
    writeFileSync(
      join(folder, 'told.mjs'),
      `import { readFileSync } from 'node:fs'
      import { InferenceEngine } from 'zerohop'
      import { loadEmbedder } from './embedder.js'
      const engine = new InferenceEngine()
      const { embed, stats } = await loadEmbedder(engine, ${JSON.stringify(join(root, name))})
      const vectors = await Promise.all(JSON.parse(readFileSync('texts.json', 'utf8')).map(embed))
      const { executionCount, padding, batchReasons } = stats()
      console.log('told ' + JSON.stringify({ vectors: vectors.map((vector) => [...vector]), executionCount, padding, batchReasons }))
      await engine.close()`,
    )
    const { text } = await startExample(folder, 'told.mjs', {}).ended()
    interface Told {
      readonly vectors: readonly number[][]
      readonly executionCount: number
      readonly padding: { readonly wasteShare: number }
      readonly batchReasons: Readonly<Record<string, number>>
    }
    const { vectors, executionCount, padding, batchReasons } = JSON.parse(
      /^told (.*)$/m.exec(text)![1]!,
    ) as Told

    env.localModelPath = root
    const plain = await pipeline('feature-extraction', name, { dtype: 'fp32' })
    onTestFinished(() => plain.dispose())
    for (const [index, each] of texts.entries()) {
      // Of one that is too long the last token stays the one that ends a text, as where models are trained; transformers.js cuts that off.
      const first = each.split(' ').slice(0, 510).join(' ')
      const { data } = await plain(first, { pooling: 'mean', normalize: true })
      expect(vectors[index], `text ${index}`).toEqual(
        Array.from(data as Float32Array, (value) => expect.closeTo(value, 4)),
      )
    }
    expect(executionCount).toBeLessThan(texts.length / 5)
    expect(batchReasons['cost']).toBeGreaterThan(0)
    expect(padding.wasteShare).toBeLessThan(0.15)
  })

  it('of a folder without a model are refused with what it lacks', async () => {
    expect(await startExample(folder, 'main.js', { MODEL: fileURLToPath(example) }).ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining('tokenizer_config.json'),
    })
  })

  it('and a model that takes something else, with what it takes', async () => {
    const other = join(folder, 'other')
    cpSync(new URL('model/', example), other, { recursive: true })
    cpSync(new URL('../digits/model.onnx', example), join(other, 'onnx/model.onnx'))
    expect(await startExample(folder, 'main.js', { MODEL: other }).ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining(
        'expected no inputs but input_ids, attention_mask, token_type_ids, received image',
      ),
    })
  })
})
