import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
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
import { perceptron, row } from './models.ts'

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

interface CompiledFile {
  readonly path: string
  readonly mode: number
  /** `null` for a folder. */
  readonly bytes: Buffer | null
}

const compiled = new Map<number, Promise<CompiledFile[]>>()

async function compiledOnce(seed: number): Promise<CompiledFile[]> {
  const dir = ownFolder()
  await cachedLoad(dir, { path: perceptron(seed) })
  return ['entries', 'used'].flatMap((room) => {
    const root = join('compiled-models-v1', room)
    const paths = readdirSync(join(dir, root), { recursive: true, encoding: 'utf8' })
    return [root, ...paths.map((path) => join(root, path))].map((path) => {
      const stats = statSync(join(dir, path))
      return { path, mode: stats.mode & 0o777, bytes: stats.isFile() ? readFileSync(join(dir, path)) : null }
    })
  })
}

/** A folder with a cache that has the compiled form of `perceptron(seed)`, which is compiled once for all tests. */
export async function compiledFolder(seed = 1, dir = ownFolder()): Promise<string> {
  if (!compiled.has(seed)) compiled.set(seed, compiledOnce(seed))
  mkdirSync(join(dir, 'compiled-models-v1'), { mode: 0o700 })
  for (const { path, mode, bytes } of await compiled.get(seed)!) {
    if (bytes === null) mkdirSync(join(dir, path), { mode })
    else writeFileSync(join(dir, path), bytes, { mode })
  }
  return dir
}

const plainAnswers = new Map<string, Promise<number[]>>()

/** What a model answers without a cache. A generated model's file never changes, so that its answer is kept. */
export function plainLoad(config: ModelConfig): Promise<number[]> {
  const { path, ...more } = config
  if (typeof path !== 'string' || dirname(path) !== dirname(perceptron()) || Object.keys(more).length > 0)
    return askPlain(config)
  let answer = plainAnswers.get(path)
  if (answer === undefined) plainAnswers.set(path, (answer = askPlain(config)))
  return answer
}

async function askPlain(config: ModelConfig): Promise<number[]> {
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
