// Writes the model of examples/embeddings anew: npx tsx test/examples/write-sentence-encoder.ts
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sentenceEncoder } from '../models/sentence-encoder.ts'

for (const [name, content] of sentenceEncoder()) {
  const path = fileURLToPath(new URL(`../../examples/embeddings/model/${name}`, import.meta.url))
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
}
