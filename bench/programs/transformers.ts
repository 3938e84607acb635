import { setTimeout as sleep } from 'node:timers/promises'
import { env, pipeline } from '@huggingface/transformers'
import { InferenceEngine } from 'zerohop'
import { accelerate, type AccelerateOptions } from 'zerohop/transformers'
import type { PipelineFolder } from '../../test/models/pipelines.ts'
import { mulberry32 } from '../../test/models/random.ts'
import { words } from '../../test/models/tokenizer.ts'
import { answer, input } from '../child.ts'
import { LoopDelayProbe, type LoopDelay } from '../loop-delay.ts'

/** Callers that ask a pipeline again as soon as they are answered. */
export interface TransformersInput {
  readonly folder: PipelineFolder
  /** As it is, or accelerated: with this padding. */
  readonly padding: 'plain' | Exclude<AccelerateOptions['padding'], undefined> | 'default'
  readonly callers: number
  /** Tokens of texts, whose lengths are log-normal. */
  readonly lengths: { readonly median: number; readonly spread: number; readonly most: number }
  readonly warmupSeconds: number
  readonly seconds: number
}

/** What it came to. */
export interface TransformersResult {
  readonly textsPerSecond: number
  /** Of the elements that are run, the share that padding adds. */
  readonly waste: number
  readonly meanBatchRows: number
  /** Of the whole process, of all threads. */
  readonly cpuMsPerText: number
  readonly loopDelay: LoopDelay
  /** Largest difference of an answer from that of the plain pipeline to the same text. */
  readonly largestDifference: number
}

const { folder, padding, callers, lengths, warmupSeconds, seconds } = input<TransformersInput>()
const samples = 32
const random = mulberry32(17)

/** A text of so many tokens by chance: two of them are those that begin and end it, each other is a word. */
function drawText(): string {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
  const tokens = Math.round(lengths.median * Math.exp(normal * lengths.spread))
  return Array.from(
    { length: Math.min(lengths.most, Math.max(3, tokens)) - 2 },
    () => words[Math.floor(random() * words.length)]!,
  ).join(' ')
}

Object.assign(env, { allowRemoteModels: false, useFSCache: false, localModelPath: folder.root })
const open = () => pipeline('feature-extraction', folder.name, { dtype: 'fp32' })
const engine = new InferenceEngine()
const extract = await open()
if (padding !== 'plain') await accelerate(extract, { engine, ...(padding !== 'default' && { padding }) })
const embed = async (text: string) =>
  (await extract(text, { pooling: 'mean', normalize: true })).data as Float32Array

const texts = Array.from({ length: 1024 }, drawText)
let done = 0
let stopped = false
const loops = Array.from({ length: callers }, async (_, caller) => {
  for (let turn = caller; !stopped; turn += callers, done++) await embed(texts[turn % texts.length]!)
})
await sleep(warmupSeconds * 1000)
const stats = () => engine.models()[0]?.stats()
const [firstDone, startMs, startCpu, before] = [done, performance.now(), process.cpuUsage(), stats()]
const probe = new LoopDelayProbe()
probe.start()
await sleep(seconds * 1000)
const cpu = process.cpuUsage(startCpu)
const cpuMsPerText = (cpu.user + cpu.system) / 1000 / (done - firstDone)
const textsPerSecond = ((done - firstDone) / (performance.now() - startMs)) * 1000
const after = stats()
const loopDelay = await probe.stop()
stopped = true
await Promise.all(loops)

const own = await Promise.all(texts.slice(0, samples).map(embed))
const plain = await open()
let largestDifference = 0
for (const [index, vector] of own.entries()) {
  const { data } = await plain(texts[index]!, { pooling: 'mean', normalize: true })
  for (const [at, value] of vector.entries())
    largestDifference = Math.max(largestDifference, Math.abs(value - (data as Float32Array)[at]!))
}
await Promise.all([plain.dispose(), extract.dispose(), engine.close()])
const { ownElements = 0, paddedElements = 0 } = after?.padding ?? {}
answer({
  textsPerSecond,
  waste: paddedElements === 0 ? 0 : 1 - ownElements / paddedElements,
  meanBatchRows:
    after === undefined || before === undefined
      ? 1
      : (after.inferenceCount - before.inferenceCount) / (after.executionCount - before.executionCount),
  cpuMsPerText,
  loopDelay,
  largestDifference,
} satisfies TransformersResult)
