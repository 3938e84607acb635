import { readFileSync } from 'node:fs'
import { InferenceEngine, Tensor, type Model, type ModelOptions, type Outputs } from 'zerohop'
import { answer, input } from '../child.ts'

/** Streams that go on for some seconds, each with a request as soon as the one before is answered. */
export interface SequencesInput {
  readonly folder: string
  readonly streams: number
  /** Most rows of a run; 0: each request is a run, and its caller hands the state on. */
  readonly maxBatchSize: number
  readonly instances: number
  /** 0: as many as there are cores for. */
  readonly threads: number
  readonly seconds: number
}

/** How many requests were answered. */
export interface SequencesResult {
  readonly rowsPerSecond: number
  /** Of the process, for each. */
  readonly cpuUs: number
  readonly rowsPerRun: number
}

const frame = 512
const context = 64
const { folder, streams, maxBatchSize, instances, threads, seconds } = input<SequencesInput>()
const wav = readFileSync(`${folder}/test.wav`)
const audio = Float32Array.from(
  { length: (wav.length - 44) / 2 },
  (_, index) => wav.readInt16LE(44 + 2 * index) / 32_768,
)
const frames = Array.from(
  { length: Math.floor(audio.length / frame) - 1 },
  (_, index) =>
    new Tensor('float32', audio.slice(index * frame, (index + 1) * frame + context), [1, frame + context]),
)
const sr = new Tensor('int64', BigInt64Array.of(16_000n), [])

const engine = new InferenceEngine()
const batched: ModelOptions = {
  maxBatchSize,
  sequence: { state: [{ input: 'state', output: 'stateN' }], maxSequenceIdleMs: 60_000 },
}
const model = await engine.load('vad', {
  path: `${folder}/silero_vad_16k_op15.onnx`,
  instanceGroup: [{ count: instances }],
  ...(threads > 0 && { sessionOptions: { intraOpNumThreads: threads } }),
  ...(maxBatchSize > 0 ? batched : { maxBatchSize: 0 }),
})

async function byHand(stream: number, until: () => boolean): Promise<void> {
  let state = new Tensor('float32', new Float32Array(2 * 128), [2, 1, 128])
  for (let step = stream; until(); step++) {
    const outputs: Outputs = await (model as Model).infer({ input: frames[step % frames.length]!, state, sr })
    state = outputs['stateN'] as typeof state
  }
}

async function asStream(number: number, until: () => boolean): Promise<void> {
  const stream = model.sequence()
  for (let step = number; until(); step++) await stream.infer({ input: frames[step % frames.length]!, sr })
  await stream.end()
}

let on = true
const running = Promise.all(
  Array.from({ length: streams }, (_, stream) =>
    (maxBatchSize > 0 ? asStream : byHand)(37 * stream, () => on),
  ),
)
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
await wait(300 * seconds)
const before = { ...model.stats(), cpu: process.cpuUsage(), atMs: performance.now() }
await wait(1000 * seconds)
const after = model.stats()
const { user, system } = process.cpuUsage(before.cpu)
const rows = after.inferenceCount - before.inferenceCount
on = false
await running
answer({
  rowsPerSecond: (rows / (performance.now() - before.atMs)) * 1000,
  cpuUs: (user + system) / rows,
  rowsPerRun: rows / (after.executionCount - before.executionCount),
} satisfies SequencesResult)
await engine.close()
