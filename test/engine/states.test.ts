import { describe, expect, it } from 'vitest'
import { Tensor, type InferenceEngine, type Model, type ModelOptions } from '../../src/index.ts'
import { cellByRate, namelessCell } from '../models/nameless-axes.ts'
import { executorKinds } from '../support/executors.ts'
import { decided } from '../support/decided.ts'
import { load, ownEngine, sharedEngine } from '../support/open.ts'
import { ortForm } from '../support/ort-form.ts'
import { runPlain, type Samples } from '../support/plain.ts'
import { expectClose } from '../support/same.ts'
import { hasShared, missingShared, sharedPath } from '../support/shared.ts'
import { until } from '../support/until.ts'
import { mulberry32, uniform } from '../models/random.ts'

const random = mulberry32(7)
const floats = (dims: readonly number[]) => ({
  type: 'float32' as const,
  dims,
  data: uniform(
    random,
    dims.reduce((product, dim) => product * dim, 1),
    1,
  ) as Float32Array,
})
const integer = (value: bigint) => ({ type: 'int64' as const, dims: [], data: BigInt64Array.of(value) })
const tensors = (samples: Samples) =>
  Object.fromEntries(
    Object.entries(samples).map(([name, { type, dims, data }]) => [
      name,
      new Tensor(type as 'float32', data.slice() as Float32Array, dims),
    ]),
  )
const engine = sharedEngine({ cpuWorkers: 1 })

/** Rounds of requests at once, each answered as alone, and the largest batch of the last. */
async function rounds(model: Model, path: string, request: () => Samples, count: number): Promise<number> {
  let largest = 0
  for (let round = 0; round < count; round++) {
    const requests = Array.from({ length: 6 }, request)
    const answers = await Promise.all(requests.map((each) => model.infer(tensors(each), { report: true })))
    for (const [at, { outputs }] of answers.entries())
      expectClose(outputs as Record<string, Tensor>, await runPlain(path, requests[at]!))
    largest = Math.max(...answers.map(({ report }) => report.batchSize))
  }
  return largest
}

/** Streams of a sequence, each answered as one that hands its state on by itself. */
async function streams(
  model: Model,
  path: string,
  request: () => Samples,
  state: () => Samples[string],
  count: number,
): Promise<number> {
  const all = Array.from({ length: 6 }, () => ({ stream: model.sequence(), state: state() }))
  let largest = 0
  for (let round = 0; round < count; round++) {
    const requests = all.map(() => request())
    const answers = await Promise.all(
      all.map(({ stream }, at) => stream.infer(tensors(requests[at]!), { report: true })),
    )
    for (const [at, { outputs }] of answers.entries()) {
      const { stateN, ...others } = await runPlain(path, { ...requests[at]!, state: all[at]!.state })
      all[at]!.state = { type: 'float32', dims: stateN!.dims, data: (stateN!.data as Float32Array).slice() }
      expectClose(outputs as Record<string, Tensor>, others)
    }
    largest = Math.max(...answers.map(({ report }) => report.batchSize))
  }
  return largest
}

const sequence: ModelOptions = { sequence: { state: [{ input: 'state', output: 'stateN' }] } }
const zeros = (dims: readonly number[]) => ({
  type: 'float32' as const,
  dims,
  data: new Float32Array(dims.reduce((product, dim) => product * dim, 1)),
})

describe('a cell without a name for any dimension', () => {
  const request = (): Samples => ({ input: floats([1, 4]), state: floats([2, 1, 4]), rate: integer(3n) })

  it('has its rows where the graph proves them to be', async () => {
    const model = await load(engine, namelessCell())
    expect(model.metadata).toMatchObject({
      maxBatchSize: 32,
      joining: { rows: 'independent', how: 'proved' },
    })
    expect(model.metadata.inputs.map(({ batchAxis }) => batchAxis)).toEqual([undefined, 1, null])
    expect(model.metadata.outputs.map(({ batchAxis }) => batchAxis)).toEqual([undefined, 1])
    expect(await rounds(model, namelessCell(), request, 2)).toBe(6)
  })

  it('is joined with its state alone, each sequence as by itself', async () => {
    const model = await load(engine, namelessCell(), sequence)
    expect(model.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
    const { input, rate } = request()
    expect(
      await streams(
        model,
        namelessCell(),
        () => ({ input: { ...input!, ...floats([1, 4]) }, rate: rate! }),
        () => zeros([2, 1, 4]),
        3,
      ),
    ).toBe(6)
  })

  it('takes the dims of a row as well', async () => {
    const dims = [{ name: 'input', dims: [4] }, { name: 'state' }, { name: 'rate' }]
    const model = await load(engine, namelessCell(), { ...sequence, inputs: dims })
    expect(model.metadata).toMatchObject({
      maxBatchSize: 32,
      joining: { rows: 'independent', how: 'proved' },
    })
    const { input, rate } = request()
    expect(
      await streams(
        model,
        namelessCell(),
        () => ({ input: { ...input!, ...floats([1, 4]) }, rate: rate! }),
        () => zeros([2, 1, 4]),
        3,
      ),
    ).toBe(6)
    await expect(
      load(engine, namelessCell(), {
        ...sequence,
        inputs: [{ name: 'input', dims: [4, 4, 4] }, ...dims.slice(1)],
      }),
    ).rejects.toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: 'inputs[0].dims' })
  })

  it('is joined by the values that its rows share, where the graph proves that they may be', async () => {
    const path = cellByRate()
    const model = await load(engine, path, sequence)
    expect(model.metadata).toMatchObject({
      maxBatchSize: 0,
      joining: {
        rows: 'unknown',
        how: 'unknown',
        node: expect.stringContaining('If'),
        reason: expect.stringMatching(
          /what requests share decides\. Without it: .*'state' of shape \[2, \?, 1\]/,
        ),
      },
    })
    const own = (rate: bigint) => () => ({ input: floats([1, 5]), rate: integer(rate) })
    const initial = () => zeros([2, 1, 1])
    expect(await streams(model, path, own(4n), initial, 3)).toBe(1)
    await streams(model, path, own(3n), initial, 1)
    await until(() => model.metadata.joining.rows === 'independent')
    expect(model.metadata).toMatchObject({ maxBatchSize: 32, joining: { how: 'proved' } })
    expect(await streams(model, path, own(3n), initial, 2)).toBe(6)
    expect(await streams(model, path, own(4n), initial, 2)).toBe(1)
  })

  it('answers a sequence whose requests have more rows than one, where those are not joined', async () => {
    const model = await load(engine, cellByRate(), sequence)
    const request = { input: floats([3, 5]), rate: integer(3n) }
    const { output } = await runPlain(cellByRate(), { ...request, state: zeros([2, 1, 1]) })
    expectClose((await model.sequence().infer(tensors(request))) as Record<string, Tensor>, {
      output: output!,
    })
  })

  it('is guessed at by nothing else', async () => {
    for (const path of [namelessCell(true), await ortForm(namelessCell())]) {
      const model = await load(engine, path)
      expect(model.metadata).toMatchObject({
        maxBatchSize: 0,
        joining: { rows: 'dependent', reason: expect.stringContaining("'state' of shape [2, ?, 4]") },
      })
      expect(await rounds(model, path, request, 1)).toBe(1)
    }
  })

  it('is found by running requests, states and all, where it is said where rows are', async () => {
    const path = await ortForm(namelessCell())
    const axes: ModelOptions = {
      inputs: [{ name: 'input' }, { name: 'state', batchAxis: 1 }, { name: 'rate', shared: true }],
      outputs: [{ name: 'output' }, { name: 'stateN', batchAxis: 1 }],
    }
    const model = await load(engine, path, { ...axes, ...sequence })
    const { input, rate } = request()
    const own = () => ({ input: { ...input!, ...floats([1, 4]) }, rate: rate! })
    await streams(model, path, own, () => zeros([2, 1, 4]), 4)
    expect(await decided(model)).toMatchObject({ rows: 'independent', how: 'checked' })
    expect(await streams(model, path, own, () => zeros([2, 1, 4]), 3)).toBe(6)
  })
})

describe.skipIf(!hasShared)(`Silero's detector of voices${missingShared}`, () => {
  const path = sharedPath('models/silero-vad/silero_vad_16k_op15.onnx')
  const chunk = () => floats([1, 576])
  const request = (): Samples => ({ input: chunk(), state: floats([2, 1, 128]), sr: integer(16000n) })

  it.each(executorKinds)(
    'is joined by its path alone as soon as the lengths of a request are known (%s)',
    async (executor) => {
      const model = await load(ownEngine({ cpuWorkers: 1, executor }), path)
      await rounds(model, path, request, 1)
      expect(await decided(model)).toMatchObject({
        rows: 'independent',
        how: 'proved',
        largestDifference: null,
      })
      expect(await rounds(model, path, request, 3)).toBeGreaterThan(1)
    },
  )

  it('is joined by its path and its state, each stream as by itself', async () => {
    const model = await load(engine, path, sequence)
    expect(
      await streams(
        model,
        path,
        () => ({ input: chunk(), sr: integer(16000n) }),
        () => zeros([2, 1, 128]),
        6,
      ),
    ).toBeGreaterThan(1)
    expect(model.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
  })

  it('is joined from the first request on where its lengths are said, by configuration or by a sample', async () => {
    const said = await load(engine, path, {
      inputs: [{ name: 'input', dims: [576] }, { name: 'state' }, { name: 'sr' }],
    })
    expect(said.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
    const warmed = await load(engine, path, { warmup: [{ feeds: tensors(request()) }] })
    expect(warmed.metadata.joining).toMatchObject({ rows: 'independent', how: 'proved' })
    expect(await rounds(warmed, path, request, 2)).toBe(6)
  })

  it('is found by running requests where there is no graph', async () => {
    const own: InferenceEngine = ownEngine({ cpuWorkers: 1 })
    const made = await ortForm(path)
    const model = await load(own, made, sequence)
    const requests = () => ({ input: chunk(), sr: integer(16000n) })
    await streams(model, path, requests, () => zeros([2, 1, 128]), 4)
    expect(await decided(model)).toMatchObject({ rows: 'independent', how: 'checked' })
    expect(await streams(model, path, requests, () => zeros([2, 1, 128]), 3)).toBe(6)
  })
})
