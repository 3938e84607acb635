import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { InferenceEngine, type ModelConfig } from '../../../../src/index.ts'
import { identity } from '../../../../test/models/small.ts'
import type { CalibrationPoint } from '../../src/tune/calibrate.ts'
import {
  batchSizesOf,
  budgetsOf,
  configJson,
  configText,
  configurationKey,
  delaysOf,
  layoutsOf,
  measuredOptions,
  optionsFor,
  roundNumber,
  saturating,
  withBudgets,
} from '../../src/tune/configuration.ts'
import { nextPoint, pointToRepeat } from '../../src/tune/next-point.ts'
import { buildHash } from '../../src/tune/state-file.ts'

const cost = { input: 'input_ids', dim: 1 }
const configuration = { instances: 1, threads: 2, maxBatchSize: 8, maxQueueDelayMs: 0 }
const expected = { rowsPerSecond: 10, p50Ms: 1, p99Ms: 2, memoryBytes: 0, meanBatchRows: 8, failures: 0 }

describe('budgets of batches', () => {
  it('are tried where a cost is configured: those around the one that is given, and none', () => {
    expect(budgetsOf(undefined, { dynamicBatching: { cost, maxBatchCost: 600 } })).toEqual([
      300, 600, 1200, 0,
    ])
    expect(budgetsOf(undefined, { dynamicBatching: { cost } })).toEqual([1024, 4096, 16_384, 0])
    expect(budgetsOf([5, 5, 7], { dynamicBatching: { cost } })).toEqual([5, 7])
  })

  it('are none without a cost', () => {
    for (const dynamicBatching of [undefined, false, { maxQueueDelayMs: 5 }] as const)
      expect(budgetsOf([5], dynamicBatching === undefined ? {} : { dynamicBatching })).toEqual([])
  })

  it('stand side by side for each configuration that has batches', () => {
    const prospects = [8, 1].map((maxBatchSize) => ({
      candidate: { configuration: { ...configuration, maxBatchSize }, load: { concurrency: 4 } },
      expected,
    }))
    const keys = withBudgets(prospects, [64, 0]).map(({ candidate }) =>
      configurationKey(candidate.configuration),
    )
    expect(keys).toEqual(['i1 t2 b8 d0 c64', 'i1 t2 b8 d0', 'i1 t2 b1 d0'])
    expect(withBudgets(prospects, [])).toEqual(prospects)
  })

  it('are what the model is loaded with, in the place of the one that was given', () => {
    const given = {
      dynamicBatching: { cost, maxBatchCost: 600, overCostAction: 'REJECT', maxPaddingShare: 0.2 },
    } as const
    expect(optionsFor({ ...configuration, maxBatchCost: 64 }, given, 'cpu').dynamicBatching).toEqual({
      cost,
      maxBatchCost: 64,
      overCostAction: 'REJECT',
      maxPaddingShare: 0.2,
      maxQueueDelayMs: 0,
    })
    expect(optionsFor(configuration, given, 'cpu').dynamicBatching).toEqual({
      cost,
      maxPaddingShare: 0.2,
      maxQueueDelayMs: 0,
    })
  })
})

const shown = (layouts: ReturnType<typeof layoutsOf>) =>
  layouts.map(({ instances, threads }) => `${instances}x${threads}`)

describe('layouts', () => {
  it('keep at most all cores busy, those that keep all of them first', () => {
    expect(shown(layoutsOf({}, 1))).toEqual(['1x1'])
    expect(shown(layoutsOf({}, 2))).toEqual(['1x2', '2x1', '1x1'])
    expect(shown(layoutsOf({}, 6)).slice(0, 3)).toEqual(['1x6', '2x3', '6x1'])
    for (const cores of [3, 8, 48])
      expect(layoutsOf({}, cores).every(({ instances, threads }) => instances * threads <= cores)).toBe(true)
  })

  it('are those that are named, whatever they come to', () => {
    expect(shown(layoutsOf({ instances: [3], threads: [1, 5] }, 2)).sort()).toEqual(['3x1', '3x5'])
    expect(shown(layoutsOf({ instances: [4] }, 2))).toEqual(['4x1'])
  })
})

describe('batch sizes', () => {
  it('go up to 128 by twos, hold a request, and are those that are named', () => {
    expect(batchSizesOf({}, true, 1)).toEqual([1, 2, 4, 8, 16, 32, 64, 128])
    expect(batchSizesOf({}, true, 5)).toEqual([8, 16, 32, 64, 128])
    expect(batchSizesOf({}, true, 300)).toEqual([300])
    expect(batchSizesOf({ batchSizes: [6, 3, 3] }, true, 1)).toEqual([3, 6])
  })

  it('are none where requests are not joined', () => {
    expect(batchSizesOf({ batchSizes: [8] }, false, 1)).toEqual([0])
  })
})

describe('delays', () => {
  it('are parts of a run, in round numbers, beside none', () => {
    expect(delaysOf({}, { maxBatchSize: 8, runMs: 37, rowsPerRequest: 1 })).toEqual([0, 10, 50])
    expect(delaysOf({ delaysMs: [5, 0] }, { maxBatchSize: 8, runMs: 37, rowsPerRequest: 1 })).toEqual([0, 5])
  })

  it('are none where a batch has one request', () => {
    expect(delaysOf({ delaysMs: [5] }, { maxBatchSize: 1, runMs: 37, rowsPerRequest: 1 })).toEqual([0])
    expect(delaysOf({}, { maxBatchSize: 8, runMs: 37, rowsPerRequest: 5 })).toEqual([0])
  })

  it('are 1, 2 or 5 times a power of ten', () => {
    expect([0.013, 0.3, 1, 3, 6.5, 80, 0].map(roundNumber)).toEqual([0.01, 0.2, 1, 2, 5, 100, 0])
  })
})

it('two full batches for each instance saturate', () => {
  const configuration = { instances: 2, threads: 1, maxBatchSize: 8, maxQueueDelayMs: 0 }
  expect(saturating(configuration, 1)).toBe(32)
  expect(saturating(configuration, 4)).toBe(8)
  expect(saturating({ ...configuration, maxBatchSize: 0 }, 1)).toBe(4)
})

const layout = { instances: 1, threads: 1 }
const batchSizes = [1, 2, 4, 8, 16, 32, 64, 128]

/** What is calibrated one after the other, where each batch size gives so many rows a second. */
function calibrated(rowsPerSecond: Readonly<Record<number, number>>): number[] {
  const points: CalibrationPoint[] = []
  for (
    let next = nextPoint(points, [layout], batchSizes, () => true);
    next !== null;
    next = nextPoint(points, [layout], batchSizes, () => true)
  ) {
    const measurement = {
      rowsPerSecond: rowsPerSecond[next.maxBatchSize] ?? 1,
      p50Ms: 1,
      p99Ms: 1,
      memoryBytes: 1,
      meanBatchRows: 1,
      failures: 0,
    }
    points.push({ ...next, runMs: 1, measurement, failure: null, isOwnMemory: true, times: 1 })
  }
  return points.map(({ maxBatchSize }) => maxBatchSize)
}

describe('batch sizes to calibrate', () => {
  it('are every third, then those beside the best', () => {
    expect(calibrated({ 1: 10, 4: 40, 8: 80, 16: 60, 64: 60 })).toEqual([1, 8, 64, 4, 16])
  })

  it('are larger ones too while they give nearly as much: the best may have met a better moment', () => {
    expect(calibrated({ 1: 10, 8: 60, 16: 70, 32: 100, 64: 90, 128: 110 })).toContain(128)
    expect(calibrated({ 1: 10, 8: 60, 16: 70, 32: 100, 64: 80, 128: 110 })).not.toContain(128)
  })
})

describe('a batch size that is measured once more', () => {
  const point = (maxBatchSize: number, rowsPerSecond: number, times = 1): CalibrationPoint => {
    const measurement = { rowsPerSecond, p50Ms: 1, p99Ms: 1, memoryBytes: 1, meanBatchRows: 1, failures: 0 }
    return { ...layout, maxBatchSize, runMs: 1, measurement, failure: null, isOwnMemory: true, times }
  }
  const repeated = (...points: CalibrationPoint[]) =>
    pointToRepeat(points, [layout], () => true)?.maxBatchSize ?? null

  it('gave less than with both fewer and more rows', () => {
    expect(repeated(point(1, 33), point(4, 38), point(8, 36), point(16, 37))).toBe(8)
    expect(repeated(point(1, 33), point(4, 38), point(8, 36, 2), point(16, 37))).toBeNull()
  })

  it('gave much less than with fewer', () => {
    expect(repeated(point(1, 33), point(4, 38), point(8, 30))).toBe(8)
    expect(repeated(point(1, 33), point(4, 38), point(8, 36))).toBeNull()
  })
})

const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe('the hash of a build', () => {
  it('is another one for other compiled files or another addon, and no other for what is not run', () => {
    const none = buildHash(folder)
    mkdirSync(join(folder, 'dist/inner'), { recursive: true })
    writeFileSync(join(folder, 'dist/inner/a.js'), 'one')
    const first = buildHash(folder)
    writeFileSync(join(folder, 'dist/inner/a.d.ts'), 'types')
    expect(buildHash(folder)).toBe(first)
    writeFileSync(join(folder, 'dist/inner/a.js'), 'two')
    const second = buildHash(folder)
    mkdirSync(join(folder, 'prebuilds/linux-x64'), { recursive: true })
    writeFileSync(join(folder, 'prebuilds/linux-x64/zerohop.node'), 'an addon')
    expect(new Set([none, first, second, buildHash(folder)]).size).toBe(4)
  })
})

describe('config file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-tune-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const configuration = { instances: 2, threads: 1, maxBatchSize: 8, maxQueueDelayMs: 2 }

  describe('the file of a configuration', () => {
    it('is what engine.load takes, as JSON', async () => {
      const config = JSON.parse(
        configJson(
          configuration,
          { path: identity('float32'), options: { memory: { arena: false } } },
          'cpu',
        ),
      ) as ModelConfig
      expect(config).toMatchObject({
        maxBatchSize: 8,
        dynamicBatching: { maxQueueDelayMs: 2 },
        instanceGroup: [{ kind: 'cpu', count: 2 }],
        sessionOptions: { intraOpNumThreads: 1 },
        memory: { arena: false },
      })
      const engine = new InferenceEngine()
      const model = await engine.load('m', config)
      expect(model.metadata.maxBatchSize).toBe(8)
      expect(model.stats().instanceCount).toBe(2)
      await engine.close()
    })

    it('is what a repository takes, as config.pbtxt', async () => {
      mkdirSync(join(folder, 'm', '1'), { recursive: true })
      cpSync(identity('float32'), join(folder, 'm', '1', 'model.onnx'))
      writeFileSync(join(folder, 'm', 'config.pbtxt'), configText('m', configuration, 'cpu')!)
      const engine = new InferenceEngine()
      expect(await engine.loadRepository(folder)).toMatchObject({ failed: [] })
      const model = engine.model('m')
      expect(model.metadata.maxBatchSize).toBe(8)
      expect(model.stats().instanceCount).toBe(2)
      await engine.close()
    })

    it('has no batching where there are no batches, and no word for what Triton has none of', () => {
      const single = { ...configuration, maxBatchSize: 1 }
      expect(configText('m', single, 'cuda')).not.toContain('dynamic_batching')
      expect(optionsFor(single, {}, 'cpu')).not.toHaveProperty('dynamicBatching')
      expect(configText('m', configuration, 'openvino')).toBeNull()
    })

    it('leaves alone what is not tuned', () => {
      const given = {
        dynamicBatching: { preserveOrdering: true, maxQueueDelayMs: 9 },
        sessionOptions: { enableMemPattern: false },
        maxBatchSize: 3,
      }
      expect(optionsFor(configuration, given, 'cpu')).toMatchObject({
        dynamicBatching: { preserveOrdering: true, maxQueueDelayMs: 2 },
        sessionOptions: { enableMemPattern: false, intraOpNumThreads: 1 },
        maxBatchSize: 8,
      })
    })

    it('has a cache of answers that was asked for, which is not what is measured', () => {
      const given = { responseCache: true, coalesce: true, weight: 2 }
      expect(optionsFor(configuration, given, 'cpu')).toMatchObject(given)
      for (const measured of [
        measuredOptions(configuration, given, 'cpu'),
        measuredOptions(null, given, 'auto'),
      ]) {
        expect(measured).not.toHaveProperty('responseCache')
        expect(measured).not.toHaveProperty('coalesce')
        expect(measured).toHaveProperty('weight', 2)
      }
    })
  })
})
