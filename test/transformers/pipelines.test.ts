import { env, pipeline, RawImage } from '@huggingface/transformers'
import { expect, it, onTestFinished } from 'vitest'
import type { InferenceEngine } from '../../src/index.ts'
import { accelerate } from '../../src/adapters/transformers/transformers-exports.ts'
import { bert, vit, type PipelineFolder } from '../models/pipelines.ts'
import { mulberry32 } from '../models/random.ts'
import { words } from '../models/tokenizer.ts'
import { full } from '../support/full.ts'
import { ownEngine } from '../support/open.ts'

env.allowRemoteModels = false
env.useFSCache = false

type Task = 'feature-extraction' | 'text-classification' | 'token-classification' | 'image-classification'
/** What a pipeline is to its callers here, of whichever task. */
type Call = (input: unknown, options?: object) => Promise<unknown>

/** A pipeline of a folder, disposed of after the test. */
async function opened(task: Task, { root, name }: PipelineFolder): Promise<Call & object> {
  env.localModelPath = root
  const loaded = await pipeline(task, name, { dtype: 'fp32' })
  onTestFinished(() => loaded.dispose())
  return loaded as never
}

/** The same pipeline twice: as it is, and served by an engine of this test. */
async function both(
  task: Task,
  folder: PipelineFolder,
): Promise<{ plain: Call; served: Call; engine: InferenceEngine }> {
  const engine = ownEngine({ inline: false })
  return {
    plain: await opened(task, folder),
    served: await accelerate(await opened(task, folder), { engine }),
    engine,
  }
}

const random = mulberry32(29)
const texts = Array.from({ length: 64 }, () =>
  Array.from(
    { length: 3 + Math.floor(random() * 20) },
    () => words[Math.floor(random() * words.length)]!,
  ).join(' '),
)

const executions = (engine: InferenceEngine) => {
  const { inferenceCount, executionCount } = engine.models()[0]!.stats()
  return { inferenceCount, executionCount }
}

/** Numbers within rounding, everything else as it is; tensors by their dims and values. */
function expectAlike(own: unknown, expected: unknown): void {
  expect(mapped(own, (value) => value)).toEqual(mapped(expected, (value) => expect.closeTo(value, 4)))
}

function mapped(value: unknown, ofNumber: (value: number) => unknown): unknown {
  if (typeof value === 'number') return ofNumber(value)
  if (typeof value !== 'object' || value === null) return value
  if ('dims' in value && 'data' in value)
    return { dims: value.dims, data: mapped([...(value.data as Float32Array)], ofNumber) }
  if (Array.isArray(value)) return value.map((each) => mapped(each, ofNumber))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, mapped(each, ofNumber)]))
}

const tasks: [Task, () => PipelineFolder, object][] = [
  ['feature-extraction', () => bert('feature-extraction'), { pooling: 'mean', normalize: true }],
  ['text-classification', () => bert('text-classification'), { top_k: null }],
  ['token-classification', () => bert('token-classification'), { ignore_labels: [] }],
]
if (full) tasks.push(['feature-extraction', () => bert('feature-extraction'), {}])

it.each(tasks)(
  '64 calls of %s at once, of texts of all lengths, are batched and answered as without',
  async (task, folder, options) => {
    const { plain, served, engine } = await both(task, folder())
    const answers = await Promise.all(texts.map((text) => served(text, options)))
    for (const [index, text] of texts.entries()) expectAlike(answers[index], await plain(text, options))
    const { inferenceCount, executionCount } = executions(engine)
    expect(inferenceCount).toBe(texts.length)
    expect(executionCount).toBeLessThanOrEqual(texts.length / 3)
    expect(engine.models()[0]!.metadata.joining.rows).toBe('independent')
  },
)

it('images that are classified at once are batched and answered as without', async () => {
  const { plain, served, engine } = await both('image-classification', vit())
  const images = Array.from(
    { length: 16 },
    () =>
      new RawImage(
        Uint8ClampedArray.from({ length: 32 * 32 * 3 }, () => random() * 256),
        32,
        32,
        3,
      ),
  )
  const first = await served(images[0], { top_k: 3 })
  const answers = [first, ...(await Promise.all(images.slice(1).map((image) => served(image, { top_k: 3 }))))]
  for (const [index, image] of images.entries()) expectAlike(answers[index], await plain(image, { top_k: 3 }))
  const { inferenceCount, executionCount } = executions(engine)
  expect(inferenceCount).toBe(images.length)
  expect(executionCount).toBeLessThan(images.length)
})

it('texts as long as the model takes are answered as without', async () => {
  const { plain, served, engine } = await both(
    'feature-extraction',
    bert('feature-extraction', undefined, 77),
  )
  const longTexts = [69, 71, 73, 75, 76, 90].map((count) =>
    Array.from({ length: count }, (_, index) => words[index % words.length]!).join(' '),
  )
  const answers = await Promise.all(longTexts.map((text) => served(text)))
  for (const [index, text] of longTexts.entries()) expectAlike(answers[index], await plain(text))
  expect(executions(engine).executionCount).toBeLessThan(longTexts.length)
})

it('several texts of one call are answered as without', async () => {
  const { plain, served } = await both('text-classification', bert('text-classification'))
  expectAlike(
    await served(texts.slice(0, 5), { top_k: null }),
    await plain(texts.slice(0, 5), { top_k: null }),
  )
})
