import { describe, expect, it } from 'vitest'
import { resolveConfig } from '../../src/options/model-config.ts'
import type { ModelOptions } from '../../src/index.ts'
import { SampleFailed, WarmUp } from '../../src/models/warm-up.ts'
import type { ValueMetadata } from '../../src/tensor/metadata.ts'
import { FeedParser } from '../../src/request/feeds.ts'
import { Padding } from '../../src/request/padding.ts'
import { Joining } from '../../src/schedule/joining.ts'
import { deferred } from '../support/deferred.ts'
import type { MailedTensor } from '../../src/tensor/tensor.ts'

type Feeds = readonly (MailedTensor | null)[]

const input = (name: string, type: string, shape: (string | number)[]) =>
  ({ name, type, shape }) as ValueMetadata

/** Warms sessions of a model with these inputs, whose runs fail as `fails` says. */
function warming(
  inputs: ValueMetadata[],
  options: ModelOptions,
  fails: (feeds: Feeds) => boolean = () => false,
) {
  const config = resolveConfig('m', { path: 'm.onnx', ...options })
  const outputs = [
    input('y', 'float32', inputs.some(({ shape }) => typeof shape[0] === 'number') ? [1] : ['N']),
  ]
  const joining = new Joining(
    'm',
    { ...config, checkRows: true },
    { inputs, outputs, properties: null, unservableOutputs: [], executionProviders: [] },
  )
  const padding = Padding.of(joining.stacked, config.padding)
  const parser = new FeedParser(joining.stacked, { optionalInputs: config.optionalInputs, padding })
  const warmUp = new WarmUp(joining.stacked, config, parser, padding, joining)
  const runs: Feeds[] = []
  const notes = new Map<string, string>()
  const session = {
    runSample: async (feeds: Feeds) => {
      runs.push(feeds)
      return { error: fails(feeds) ? 'it failed' : null, runMs: 1, outputs: [] }
    },
    note: (key: string) => notes.get(key) ?? '',
    setNote: (key: string, value: string) => void notes.set(key, value),
  }
  const dims = () => runs.map((feeds) => feeds.map((feed) => feed?.dims ?? null))
  const values = (feed: MailedTensor) =>
    [
      ...(feed.type === 'int64'
        ? new BigInt64Array(feed.data as ArrayBuffer)
        : new Float32Array(feed.data as ArrayBuffer)),
    ].map(Number)
  return { warmUp, session: session as never, runs, dims, values, joining }
}

const image = [input('x', 'float32', ['N', 3])]
const tokens = [input('ids', 'int64', ['N', 'L']), input('mask', 'int64', ['N', 'L'])]
const lengths = (sizes: readonly number[] | 'longest' = [4, 16]) => [
  { input: 'ids', dim: 1, sizes },
  { input: 'mask', dim: 1, sizes },
]

describe('warming up by default', () => {
  it('is one row of zeros where that can do no harm', async () => {
    const { warmUp, session, runs, dims, values } = warming(image, {})
    await warmUp.run(session, 'cpu')
    expect(dims()).toEqual([[[1, 3]]])
    expect(values(runs[0]![0]!)).toEqual([0, 0, 0])
  })

  it.each([
    ['integers', [input('x', 'int64', ['N', 3])]],
    ['a dimension that may have any length', [input('x', 'float32', ['N', 'L'])]],
    ['what is no tensor', [input('x', 'seq(float32)', [])]],
  ])('is nothing for %s', async (_, inputs) => {
    const { warmUp, session, runs } = warming(inputs, {})
    await warmUp.run(session, 'cpu')
    expect(runs).toEqual([])
  })

  it('is one run for each length that inputs are padded to', async () => {
    const { warmUp, session, dims } = warming([input('x', 'float32', ['N', 'L', 2])], {
      padding: { input: 'x', dim: 1, sizes: [8, 2, 32] },
    })
    await warmUp.run(session, 'cpu')
    expect(dims()).toEqual([[[1, 2, 2]], [[1, 8, 2]], [[1, 32, 2]]])
  })

  it('is done once for sessions that are one, and by a check of rows', async () => {
    const { warmUp, session, runs } = warming(image, {})
    await warmUp.run(session, 'cpu', async () => true)
    await warmUp.run(session, 'cpu')
    expect(runs).toEqual([])
  })

  it('is done by each that is another session, of like ones after the first', async () => {
    const { warmUp, session, runs } = warming(image, {})
    const gate = deferred<void>()
    const first = {
      runSample: () => gate.promise.then(() => ({ error: null })),
      note: () => '',
      setNote: () => {},
    }
    const warmed = [warmUp.run(first as never, 'cpu'), warmUp.run(session, 'cpu')]
    const other = warming(image, {})
    await warmUp.run(other.session, 'cuda')
    expect([runs.length, other.runs.length]).toEqual([0, 1])
    gate.resolve()
    await Promise.all(warmed)
    expect(runs).toHaveLength(1)
  })

  it('is nothing with false', async () => {
    const { warmUp, session, runs } = warming(image, { warmup: false })
    await warmUp.run(session, 'cpu')
    expect([runs.length, warmUp.calibrationSample]).toEqual([0, undefined])
  })
})

describe('warming up with what is made up', () => {
  it('runs each batch size of each padded length, dimensions of one name together', async () => {
    const { warmUp, session, dims } = warming(tokens, {
      maxBatchSize: 8,
      padding: lengths(),
      warmup: { data: 'random', batchSizes: [8, 1], count: 1 },
    })
    await warmUp.run(session, 'cpu')
    expect(dims()).toEqual(
      [
        [1, 4],
        [8, 4],
        [1, 16],
        [8, 16],
      ].map((dims) => [dims, dims]),
    )
  })

  it('runs 1, 2, 4 ... rows, the preferred sizes and the largest for all', async () => {
    const { warmUp, session, dims } = warming(image, {
      maxBatchSize: 12,
      dynamicBatching: { preferredBatchSize: [6] },
      warmup: { batchSizes: 'all', count: 1 },
    })
    await warmUp.run(session, 'cpu')
    expect(dims().map(([own]) => own![0])).toEqual([1, 2, 4, 6, 8, 12])
  })

  it('has integers from 1 to 7 at random, or zeros where they are asked for, each as often as it is said', async () => {
    const random = warming(tokens, { warmup: { data: 'random' } })
    await random.warmUp.run(random.session, 'cpu')
    expect(random.runs).toHaveLength(2)
    expect(random.values(random.runs[0]![0]!).every((value) => value >= 1 && value <= 7)).toBe(true)
    const zeros = warming(tokens, { warmup: { data: 'zeros', count: 3 } })
    await zeros.warmUp.run(zeros.session, 'cpu')
    expect(zeros.runs).toHaveLength(3)
    expect(zeros.values(zeros.runs[0]![0]!).every((value) => value === 0)).toBe(true)
  })

  it('tries other lengths and values until the model takes some, and leaves out what it does not take', async () => {
    const onlyLength64 = warming(
      [input('x', 'float32', ['N', 'L'])],
      { warmup: { data: 'zeros' } },
      ([x]) => x!.dims[1] !== 64,
    )
    await onlyLength64.warmUp.run(onlyLength64.session, 'cpu')
    expect(onlyLength64.dims().at(-1)).toEqual([[1, 64]])
    const none = warming(image, { warmup: { data: 'random', batchSizes: [2] }, maxBatchSize: 4 }, () => true)
    await expect(none.warmUp.run(none.session, 'cpu')).resolves.toBeUndefined()
  })

  it('gives a model without a batch dimension its dims as they are', async () => {
    const { warmUp, session, dims } = warming([input('x', 'float32', [4, 3]), input('n', 'int64', [])], {
      warmup: { data: 'random', batchSizes: [1] },
    })
    await warmUp.run(session, 'cpu')
    expect(dims()[0]).toEqual([[4, 3], []])
  })

  it('leaves out sizes that need too much memory, or that batches do not have', async () => {
    const { warmUp, session, dims } = warming([input('x', 'float32', ['N', 2 ** 22])], {
      maxBatchSize: 64,
      warmup: { batchSizes: [1, 8, 64], count: 1 },
    })
    await warmUp.run(session, 'cpu')
    expect(dims()).toEqual([[[1, 2 ** 22]], [[8, 2 ** 22]]])
    const unknown = warming(image, { warmup: { batchSizes: [1, 32, 64], count: 1 } })
    await unknown.warmUp.run(unknown.session, 'cpu')
    expect(unknown.dims()).toEqual([[[1, 3]], [[32, 3]]])
  })

  it('measures with what it made up', () => {
    expect(warming(tokens, { warmup: { data: 'random' } }).warmUp.calibrationSample).toBeUndefined() // of no certain length
    expect(
      warming([input('x', 'int64', ['N', 2])], { warmup: { data: 'random' } }).warmUp.calibrationSample,
    ).toMatchObject({ bucketKey: '', feeds: [{ dims: [1, 2] }] })
  })
})

describe('warming up with samples', () => {
  const feeds = { x: Float32Array.of(1, 2, 3) }

  it('runs each as it is and as often as it says, on every instance', async () => {
    const { warmUp, session, runs, values } = warming(image, { warmup: [{ feeds, count: 2 }] })
    for (let instance = 0; instance < 2; instance++) await warmUp.run(session, 'cpu')
    expect(runs).toHaveLength(4)
    expect(values(runs[3]![0]!)).toEqual([1, 2, 3])
  })

  it('repeats its first row in each batch size', async () => {
    const rows = { x: { type: 'float32', dims: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) } } as never
    const { warmUp, session, runs, values } = warming(image, {
      maxBatchSize: 4,
      warmup: { data: [{ feeds: rows }], batchSizes: [1, 3] },
    })
    await warmUp.run(session, 'cpu')
    expect(runs.map(([x]) => values(x!))).toEqual([
      [1, 2, 3],
      [1, 2, 3, 1, 2, 3, 1, 2, 3],
    ])
  })

  it('fails with the first that fails', async () => {
    const { warmUp, session } = warming(image, { warmup: [{ feeds }] }, () => true)
    await expect(warmUp.run(session, 'cpu')).rejects.toBeInstanceOf(SampleFailed)
  })
})

describe('a configuration of warming up is refused', () => {
  it.each<[string, object, string]>([
    [
      'with sizes that no batch has',
      { maxBatchSize: 8, warmup: { batchSizes: [4, 9] } },
      'warmup.batchSizes',
    ],
    ['without sizes', { warmup: { batchSizes: [] } }, 'warmup.batchSizes'],
    ['with other data', { warmup: { data: 'ones' } }, 'warmup.data'],
    ['with an unknown option', { warmup: { batchSize: 4 } }, 'warmup.batchSize'],
    ['with a sample that has no feeds', { warmup: { data: [{}] } }, 'warmup.data[0].feeds'],
    ['with a count of 0', { warmup: { count: 0 } }, 'warmup.count'],
    ['as text', { warmup: 'zeros' }, 'warmup'],
  ])('%s', (_, options, argument) => {
    expect(() => resolveConfig('m', { path: 'm.onnx', ...options })).toThrow(
      expect.objectContaining({ code: 'ERR_MODEL_CONFIG', argument }),
    )
  })
})
