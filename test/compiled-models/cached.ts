import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import {
  InferenceEngine,
  type CacheCapability,
  type EngineOptions,
  type ModelConfig,
  type ModelOrigin,
  type OutputValue,
} from '../../src/index.ts'
import { modelsCompiled } from '../../src/engine/engine-resources.ts'
import { row } from './models.ts'

/** A folder for one test. */
export function ownFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** What came of a load by an engine of its own. */
export interface CachedLoad {
  readonly y: readonly number[]
  readonly origin: ModelOrigin
  readonly cache: CacheCapability
  readonly loadMs: number
}

/** Loads a model with a cache in `dir`, has it answer once, and closes the engine when the model is compiled. */
export async function cachedLoad(
  dir: string,
  config: ModelConfig,
  options: EngineOptions = {},
): Promise<CachedLoad> {
  const engine = new InferenceEngine({
    verify: 'child',
    ...options,
    cache: { dir, ...(options.cache as object | undefined) },
  })
  try {
    const startMs = performance.now()
    const model = await engine.load('model', config)
    const loadMs = performance.now() - startMs
    const { y } = await model.infer({ x: row() })
    await modelsCompiled(engine)
    const { cache } = engine.capabilities()
    const origin = engine.stats().models['model']!.origin!
    return { y: [...(y as { data: Float32Array }).data], origin, cache, loadMs }
  } finally {
    await engine.close()
  }
}

/** What the model answers without any cache. */
export async function plainLoad(config: ModelConfig): Promise<number[]> {
  const engine = new InferenceEngine({ cache: false, verify: 'none' })
  try {
    const outputs = (await (await engine.load('model', config)).infer({ x: row() })) as Record<
      string,
      OutputValue
    >
    return [...(outputs['y'] as { data: Float32Array }).data]
  } finally {
    await engine.close()
  }
}

/** The paths of all entries of a cache. */
export function entriesIn(dir: string): string[] {
  const entries = join(dir, 'compiled-models-v1', 'entries')
  return readdirSync(entries).map((name) => join(entries, name))
}
