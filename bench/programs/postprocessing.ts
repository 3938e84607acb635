import { InferenceEngine, Tensor, type Model } from 'zerohop'
import { nonMaxSuppression, softmax } from 'zerohop/function'
import { mulberry32 } from '../../test/models/random.ts'
import { askFor } from '../callers.ts'
import { answer, input } from '../child.ts'
import { percentile } from '../statistics.ts'

/** A built-in function, or the same as somebody would write it. */
export interface PostprocessingInput {
  readonly work: { readonly classes: number } | { readonly boxes: number; readonly classes: number }
  /** Where it is run: as it is built in, in JavaScript by the application's thread, or in JavaScript on a thread of its own. */
  readonly side: 'built in' | 'here' | 'on a thread'
  readonly callers: number
  readonly seconds: number
}

export interface PostprocessingResult {
  readonly answersPerSecond: number
  readonly p50Us: number
}

const { work, side, callers, seconds } = input<PostprocessingInput>()
const isSoftmax = !('boxes' in work)
const moduleOf = (file: string) => ({ module: new URL(file, import.meta.url) })
const engine = new InferenceEngine()
const loaded = (await engine.loadFunction('function', await configuration())) as unknown as Model

async function configuration() {
  const { inputs, outputs, ...builtIn } = isSoftmax ? softmax() : nonMaxSuppression()
  const declared = { inputs: [...inputs], outputs: [...outputs] }
  if (side === 'built in') return { ...declared, ...builtIn } as never
  const file = isSoftmax ? './softmax-in-javascript.mjs' : './detections-on-a-thread.mjs'
  if (side === 'on a thread') return { ...declared, ...moduleOf(file) } as never
  return { ...declared, run: ((await import(file)) as { default: unknown }).default } as never
}

const random = mulberry32(3)
const values = (count: number, scale = 1) => Float32Array.from({ length: count }, () => random() * scale)
const feeds =
  'boxes' in work
    ? detections(work.boxes, work.classes)
    : { logits: new Tensor('float32', values(work.classes, 8), [1, work.classes]) }

/** A detector's answer: boxes all over a picture, with one score of thirty that counts. */
function detections(boxes: number, classes: number) {
  const corners = values(4 * boxes, 600)
  for (let box = 0; box < boxes; box++)
    for (const side of [0, 1]) corners[4 * box + 2 + side] = corners[4 * box + side]! + 20 + random() * 60
  const scores = values(classes * boxes).map((score) => score ** 40)
  return {
    boxes: new Tensor('float32', corners, [1, boxes, 4]),
    scores: new Tensor('float32', scores, [1, classes, boxes]),
  }
}

const ask = () => loaded.infer(feeds)
await askFor(300 * seconds, callers, ask)
const { timesUs, tookMs } = await askFor(1000 * seconds, callers, ask)
answer({
  answersPerSecond: (timesUs.length / tookMs) * 1000,
  p50Us: percentile(timesUs, 0.5),
} satisfies PostprocessingResult)
await engine.close()
