import { open } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { pMapIterable } from 'p-map'
import { InferenceEngine } from 'zerohop'
import { loadEmbedder } from './embedder.js'
import { nearest } from './nearest.js'

const here = (name) => fileURLToPath(new URL(name, import.meta.url))
const { MODEL = here('model'), SENTENCES = here('sentences.txt') } = process.env
const questions = process.argv.slice(2)

/** So many texts wait at a time, for batches to be chosen of: a multiple of what one has. */
const atOnce = 512

const engine = new InferenceEngine()
try {
  const { embed, stats } = await loadEmbedder(engine, MODEL)
  const file = await open(SENTENCES)
  const started = performance.now()
  const sentences = []
  for await (const sentence of pMapIterable(
    file.readLines(),
    async (text) => ({ text, vector: await embed(text) }),
    { concurrency: atOnce },
  ))
    sentences.push(sentence)
  const seconds = (performance.now() - started) / 1000
  const { executionCount, padding } = stats()
  console.log(
    `${sentences.length} sentences in ${executionCount} runs and ${seconds.toFixed(2)} s; ${(100 * padding.wasteShare).toFixed(1)} % of what was run is padding`,
  )

  for (const question of questions) {
    console.log(`\n${question}`)
    const found = nearest(
      sentences.map(({ vector }) => vector),
      await embed(question),
      3,
    )
    for (const { index, cosine } of found) console.log(`  ${cosine.toFixed(3)}  ${sentences[index].text}`)
  }
} finally {
  await engine.close()
}
