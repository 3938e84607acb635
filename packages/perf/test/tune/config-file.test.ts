import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { InferenceEngine, type ModelConfig } from '../../../../src/index.ts'
import { configJson, configText, measuredOptions, optionsFor } from '../../src/tune/configuration.ts'
import { identity } from '../../../../test/models/small.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-tune-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const configuration = { instances: 2, threads: 1, maxBatchSize: 8, maxQueueDelayMs: 2 }

describe('the file of a configuration', () => {
  it('is what engine.load takes, as JSON', async () => {
    const config = JSON.parse(
      configJson(configuration, { path: identity('float32'), options: { memory: { arena: false } } }, 'cpu'),
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
