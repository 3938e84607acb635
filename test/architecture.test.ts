import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import * as publicValues from '../src/index.ts'

/**
 * The floors of src/, lowest first, with the files (or folders, with a slash at the end) that are on them. The longest
 * match counts. An import leads to a lower floor or stays in its folder; types count like values.
 */
const floors: [floor: string, on: string[]][] = [
  ['foundations', ['errors.ts', 'tensor.ts', 'clock.ts', 'scheduling.ts', 'indexed-heap.ts']],
  [
    'declarations: what is asked for and what there is',
    [
      'model/config.ts', 'model/metadata.ts', 'model/resolve-config.ts', 'model/scheduling-config.ts', 'model/check-session-options.ts', 'model/session-options.ts',
      'observability/', 'staging/binding.ts', 'preprocess/',
    ],
  ],
  ['the border between the threads', ['pool/protocol.ts']],
  ['mechanisms that know nothing of each other', ['batching/', 'staging/', 'pool/', 'repository/']],
  ['models, the hardware, the worker', ['model/', 'pool/devices.ts', 'worker/']],
  ['the engine', ['engine.ts', 'engine-model.ts', 'engine-options.ts', 'worker/main.ts']],
  ['the public face', ['index.ts']],
  ['programs', ['cli/', 'perf/']],
]

interface Import {
  readonly from: string
  readonly to: string
  readonly typesOnly: boolean
}

const root = fileURLToPath(new URL('../src/', import.meta.url))
const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .map((file) => file.replaceAll('\\', '/'))
  .filter((file) => file.endsWith('.ts'))
const texts = new Map(files.map((file) => [file, readFileSync(root + file, 'utf8')]))

/** Imports and re-exports of files in src/. */
const imports: Import[] = files.flatMap((from) => {
  const statements = texts.get(from)!.matchAll(/^(?:import|export)\s+(type\s)?[^'"`;]*?from\s+'(\.[^']+)'/gm)
  const calls = texts.get(from)!.matchAll(/\bimport\((\s*)'(\.[^']+)'/g)
  return [...statements, ...calls].map(([, type, path]) => ({
    from,
    to: posix.join(posix.dirname(from), path!),
    typesOnly: type?.trim() === 'type',
  }))
})

const folderOf = (file: string) => posix.dirname(file)
const shown = ({ from, to }: Import) => `${from} -> ${to}`

function floorOf(file: string): number {
  let found = { floor: -1, length: 0 }
  for (const [floor, [, patterns]] of floors.entries()) {
    for (const pattern of patterns) {
      const matches = pattern.endsWith('/') ? file.startsWith(pattern) : file === pattern
      if (matches && pattern.length > found.length) found = { floor, length: pattern.length }
    }
  }
  return found.floor
}

/** The first circle that is found by following `edges` from each file. */
function circle(edges: readonly Import[]): string[] | null {
  const done = new Set<string>()
  const visit = (file: string, path: string[]): string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return null
    for (const { to } of edges.filter(({ from }) => from === file)) {
      const found = visit(to, [...path, file])
      if (found !== null) return found
    }
    done.add(file)
    return null
  }
  for (const file of files) {
    const found = visit(file, [])
    if (found !== null) return found
  }
  return null
}

describe('the files of src/', () => {
  it('are found, and so are their imports', () => {
    expect(files.length).toBeGreaterThan(40)
    expect(imports.length).toBeGreaterThan(100)
    expect(imports.filter(({ to }) => !texts.has(to))).toEqual([])
  })

  it('each have a floor', () => {
    expect(files.filter((file) => floorOf(file) === -1)).toEqual([])
  })

  it('import from lower floors, or from their own folder', () => {
    const upwards = imports.filter(({ from, to }) => {
      const down = floorOf(to) < floorOf(from)
      return !down && !(folderOf(to) === folderOf(from) && floorOf(to) === floorOf(from))
    })
    expect(upwards.map(shown)).toEqual([])
  })

  it('do not import each other in circles, unless two neighbours share types', () => {
    const counted = imports.filter(({ from, to, typesOnly }) => !typesOnly || folderOf(from) !== folderOf(to))
    expect(circle(counted)).toBeNull()
  })

  it('have 250 lines at most, and about 100 in the middle', () => {
    const lengths = files.map((file) => ({ file, lines: texts.get(file)!.split('\n').length - 1 }))
    expect(lengths.filter(({ lines }) => lines > 250)).toEqual([])
    const inOrder = lengths.map(({ lines }) => lines).sort((a, b) => a - b)
    expect(inOrder[Math.floor(inOrder.length / 2)]).toBeLessThanOrEqual(110)
  })
})

describe('packages', () => {
  const naming = (name: string) => {
    const literal = new RegExp(`['"\`]${name}(?:/[^'"\`]*)?['"\`]`)
    return files.filter((file) => literal.test(texts.get(file)!))
  }

  it('onnxruntime-node is known to the worker alone', () => {
    expect(naming('onnxruntime-node').sort()).toEqual([
      'cli/signature.ts', // in the text that it writes
      'pool/cuda-provider.ts', // looks for a file of it
      'worker/session.ts',
    ])
  })

  it('Piscina is known to one file', () => {
    expect(naming('piscina')).toEqual(['pool/thread-pool.ts'])
  })

  it('sharp is known to the preprocessing alone', () => {
    expect(naming('sharp').filter((file) => !file.startsWith('preprocess/'))).toEqual([])
  })

  it('batching needs nothing but the clock, the words of scheduling and a heap', () => {
    const foreign = files
      .filter((file) => file.startsWith('batching/'))
      .flatMap((file) => [...texts.get(file)!.matchAll(/from '([^']+)'/g)].map(([, path]) => path!))
      .filter((path) => !path.startsWith('./') && !['../clock.ts', '../scheduling.ts', '../indexed-heap.ts'].includes(path))
    expect(foreign).toEqual([])
  })
})

describe('the two sides of a thread', () => {
  it('meet only in the protocol and the control block', () => {
    const side = (file: string) => /^(worker|pool)\//.test(file)
    const crossing = imports.filter(({ from, to }) => side(from) && side(to) && folderOf(from) !== folderOf(to))
    expect([...new Set(crossing.map(({ to }) => to))].sort()).toEqual(['pool/control-block.ts', 'pool/protocol.ts'])
  })

  it('leave the worker to be loaded by its path', () => {
    expect(imports.filter(({ to }) => to === 'worker/main.ts')).toEqual([])
  })
})

describe('index.ts', () => {
  const text = texts.get('index.ts')!

  it('only re-exports', () => {
    expect(text.replaceAll(/^export (type )?\{[^}]*\} from '[^']+'$/gm, '').trim()).toBe('')
  })

  it('exports the documented values', () => {
    expect(Object.keys(publicValues).sort()).toEqual(['InferenceEngine', 'InferenceError', 'Model', 'Tensor'])
  })

  it('exports the documented types', () => {
    const lists = [...text.matchAll(/^export type \{([^}]*)\}/gm)].map(([, names]) => names!)
    const types = lists.flatMap((names) => names.split(',').map((name) => name.trim()))
    expect(types.filter((name) => name !== '').sort()).toEqual([
      'AnySignature', 'BatchReason', 'BatchReport', 'BatchStatistics', 'Capabilities', 'CloseOptions', 'DynamicBatchingConfig',
      'EngineOptions', 'EngineStatistics', 'FeedValue', 'Feeds', 'InferManyOptions', 'InferManyResult', 'InferOptions',
      'InferenceErrorCode', 'InferenceErrorDetails', 'InstanceGroup', 'InstanceKind', 'ModelCapacity', 'ModelConfig', 'ModelMetadata',
      'ModelSignature', 'ModelState', 'ModelStatistics', 'Outputs', 'PaddingConfig', 'QueuePolicy', 'RejectionReason',
      'RepositoryOptions', 'StagingKind', 'StagingOptions', 'StagingStats', 'StatisticDuration', 'TensorData', 'TensorMetadata',
      'TensorType', 'TimeoutAction', 'WarmupSample', 'WorkerOptions',
    ])
  })
})
