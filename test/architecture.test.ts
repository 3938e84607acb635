import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import * as publicValues from '../src/index.ts'
import type { InferRequest } from '../src/request/infer-request.ts'
import { RequestQueue } from '../src/schedule/request-queue.ts'
import { identity } from './models/small.ts'
import { load, ownEngine } from './support/open.ts'

/**
 * The floors of src/, lowest first, with the files (or folders, with a slash at the end) that are on them. The longest
 * match counts. Imports lead to the same floor or to a lower one. docs/internals/architecture.md draws them.
 */
const floors: [floor: string, on: string[]][] = [
  ['errors', ['errors.ts']],
  ['tensor', ['tensor/']],
  ['base', ['base/']],
  ['onnx', ['onnx/']],
  ['options', ['options/']],
  ['native', ['native/']],
  ['observe', ['observe/']],
  ['request', ['request/']],
  ['schedule', ['schedule/']],
  ['run', ['run/']],
  ['models', ['models/']],
  ['features', ['features/']],
  ['engine', ['engine/', 'engine.ts', 'model.ts']],
  ['adapters', ['adapters/']],
  ['index', ['index.ts']],
  ['tools', ['cli/', 'internals.ts']],
]

interface Import {
  readonly isType: boolean
  readonly from: string
  readonly to: string
}

const root = fileURLToPath(new URL('../src/', import.meta.url))
const top = fileURLToPath(new URL('..', import.meta.url))

/** The sources below a folder, by their paths in it. */
function textsIn(folder: string): Map<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) =>
    file.replaceAll('\\', '/'),
  )
  return new Map(
    names
      .filter((file) => /\.m?[jt]s$/.test(file))
      .map((file) => [file, readFileSync(folder + file, 'utf8')]),
  )
}

/** Imports and re-exports of each other. */
function importsIn(sources: ReadonlyMap<string, string>): Import[] {
  return [...sources].flatMap(([from, text]) => {
    const statements = text.matchAll(/^(?:import|export)\s+(type\s)?[^'"`;]*?from\s+'(\.[^']+)'/gm)
    const calls = text.matchAll(/\bimport\((\s*)'(\.[^']+)'/g)
    return [...statements, ...calls].map(([, type, path]) => ({
      isType: type?.startsWith('type') ?? false,
      from,
      to: posix.join(posix.dirname(from), path!),
    }))
  })
}

const texts = textsIn(root)
const files = [...texts.keys()]
const imports = importsIn(texts)

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
  for (const { from } of edges) {
    const found = visit(from, [])
    if (found !== null) return found
  }
  return null
}

const architecture = readFileSync(`${top}docs/internals/architecture.md`, 'utf8')

/** The lines of the picture in docs/internals/architecture.md that follows a sentence. */
function picture(sentence: string): string[] {
  const after = architecture.slice(architecture.indexOf(sentence))
  return /```text\n([\s\S]*?)\n```/.exec(after)![1]!.split('\n')
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

  it('import from their own floor or from lower ones', () => {
    const upwards = imports.filter(({ from, to }) => floorOf(to) > floorOf(from))
    expect(upwards.map(shown)).toEqual([])
  })

  it('do not import values of each other in circles', () => {
    expect(circle(imports.filter(({ isType }) => !isType))).toBeNull()
  })

  it('refer to types in circles only inside one folder', () => {
    const leaving = imports.filter(({ from, to }) => folderOf(from) !== folderOf(to))
    expect(circle(leaving)).toBeNull()
  })

  it('know nothing of adapters, but for adapters themselves', () => {
    const adapters = imports.filter(
      ({ from, to }) => to.startsWith('adapters/') && !from.startsWith('adapters/'),
    )
    expect(adapters.map(({ from }) => from).filter((file) => file !== 'internals.ts')).toEqual([])
  })

  /** Files of less than 100 lines with one importer, and why they are not part of it. */
  const small: Record<string, string> = {
    'cli/device-report.ts': 'loaded only when `zerohop devices` runs',
    'cli/hand-over.ts': 'finds the package of tools; commands of the engine do not need it',
    'engine/loaded-pipeline.ts': 'the counterpart of loaded-model.ts',
    'onnx/model-properties.ts': 'reads the metadata of a file and nothing else of it',
    'run/prover-thread.ts': 'entry of a thread',
  }

  it('are no splinters: each of less than 100 lines with one importer is listed with its reason', () => {
    const importers = (file: string) =>
      new Set(imports.filter(({ to }) => to === file).map(({ from }) => from))
    const found = files.filter(
      (file) => texts.get(file)!.split('\n').length <= 100 && importers(file).size === 1,
    )
    expect(found.sort()).toEqual(Object.keys(small))
  })

  it('have a name of their own', () => {
    const names = files.map((file) => posix.basename(file))
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })
})

describe('docs/internals/architecture.md', () => {
  it('draws the floors of src/, highest first', () => {
    const drawn = picture('The floors of `src/`').map((line) => line.split(' ', 1)[0]!)
    expect(drawn.filter((name) => name !== '')).toEqual(floors.map(([floor]) => floor).reverse())
  })
})

describe('the files of bench/ and test/', () => {
  it.each(['bench/', 'test/', 'packages/perf/test/'])(
    'of %s do not import each other in circles',
    (folder) => {
      const edges = importsIn(textsIn(top + folder))
      expect(edges.length).toBeGreaterThan(50)
      expect(circle(edges)).toBeNull()
    },
  )
})

describe('packages', () => {
  const naming = (name: string) => {
    const literal = new RegExp(`['"\`]${name}(?:/[^'"\`]*)?['"\`]`)
    return files.filter((file) => literal.test(texts.get(file)!))
  }

  it('onnxruntime-node is known to the worker alone', () => {
    expect(naming('onnxruntime-node').sort()).toEqual([
      'adapters/transformers/accelerate.ts', // looks for the class of its sessions
      'cli/types.ts', // in the text that it writes
      'run/built-in-providers.ts', // looks for a file of it
      'run/executors/native/native-ort.ts', // looks for its library
      'run/worker-thread/onnxruntime.ts',
    ])
  })

  it('OpenTelemetry is known to one room', () => {
    expect(
      naming('@opentelemetry/api').filter((file) => !file.startsWith('adapters/opentelemetry/')),
    ).toEqual([])
  })

  it('Piscina is known to one file', () => {
    expect(naming('piscina')).toEqual(['run/device-pool.ts'])
  })

  it('prom-client is known to one file, which neither the engine nor anything that it needs imports', () => {
    expect(naming('prom-client')).toEqual(['adapters/prometheus/prometheus-metrics.ts'])
    expect(
      imports.filter(
        ({ from, to }) => to.startsWith('adapters/prometheus/') && !from.startsWith('adapters/prometheus/'),
      ),
    ).toEqual([])
  })

  it('protobufjs is known to the file that has the schema', () => {
    expect(naming('protobufjs')).toEqual(['onnx/wire-reader.ts'])
  })

  it('sharp and what reports to others may be left out, and what only a build of the addon needs is left to those who build it', () => {
    const manifest = JSON.parse(readFileSync(`${root}../package.json`, 'utf8')) as Record<
      string,
      Record<string, unknown>
    >
    expect(Object.keys(manifest['dependencies']!).sort()).toEqual([
      'commander',
      'lossless-json',
      'onnxruntime-common',
      'piscina',
      'protobufjs',
      'valibot',
    ])
    const optional = ['@julusian/jpeg-turbo', '@opentelemetry/api', 'prom-client', 'sharp']
    expect(Object.keys(manifest['peerDependencies']!)).toEqual(expect.arrayContaining(optional))
    expect(manifest['peerDependenciesMeta']).toEqual(
      Object.fromEntries(optional.map((name) => [name, { optional: true }])),
    )
    expect(Object.keys(manifest['devDependencies']!)).toEqual(
      expect.arrayContaining(['node-addon-api', ...optional]),
    )
  })

  it('sharp is known to features/image/ alone', () => {
    expect(naming('sharp').filter((file) => !file.startsWith('features/image/'))).toEqual([])
  })
})

describe('the two sides of a thread', () => {
  it('meet only in the protocol and the control block', () => {
    const crossing = imports.filter(
      ({ from, to }) =>
        /^run\/(worker|function)-thread$/.test(folderOf(from)) &&
        /^(run|schedule)\//.test(to) &&
        !to.startsWith('run/executors/function/') &&
        folderOf(to) !== folderOf(from),
    )
    expect([...new Set(crossing.map(({ to }) => to))].sort()).toEqual([
      'run/executors/binding/control-block.ts',
      'run/executors/executor.ts',
      'run/executors/protocol.ts',
    ])
  })

  it('leave the worker to be loaded by its path', () => {
    expect(
      imports.filter(
        ({ from, to }) =>
          /^run\/(worker|function)-thread$/.test(folderOf(to)) && folderOf(from) !== folderOf(to),
      ),
    ).toEqual([])
  })

  it('and so the program in which models are tried', () => {
    expect(
      imports.filter(
        ({ from, to }) =>
          folderOf(to) === 'engine/trial-process' && folderOf(from) !== 'engine/trial-process',
      ),
    ).toEqual([])
  })
})

describe('index.ts', () => {
  const text = texts.get('index.ts')!

  it('only re-exports', () => {
    expect(text.replaceAll(/^export (type )?\{[^}]*\} from '[^']+'$/gm, '').trim()).toBe('')
  })

  it('exports the documented values', () => {
    expect(Object.keys(publicValues).sort()).toEqual([
      'InferenceEngine',
      'InferenceError',
      'Model',
      'SequenceStream',
      'Tensor',
      'defineModelConfig',
    ])
  })

  it('exports the documented types', () => {
    const lists = [...text.matchAll(/^export type \{([^}]*)\}/gm)].map(([, names]) => names!)
    const types = lists.flatMap((names) => names.split(',').map((name) => name.trim()))
    expect(types.filter((name) => name !== '').sort()).toEqual([
      'AnySignature',
      'ArrivalRecording',
      'AutoTuneDecision',
      'AutoTuneFinalTurns',
      'AutoTuneOptions',
      'AutoTuneStatistics',
      'BatchInput',
      'BatchMessage',
      'BatchMoments',
      'BatchReason',
      'BatchReport',
      'BatchStatistics',
      'CacheCapability',
      'CacheOptions',
      'Capabilities',
      'Classification',
      'CloseOptions',
      'ComputePrecision',
      'ConfiguredSignature',
      'CostedRequest',
      'DirectSequences',
      'DynamicBatchingConfig',
      'ElementType',
      'EngineEvents',
      'EngineInferOptions',
      'EngineOptions',
      'EngineStatistics',
      'EngineTrace',
      'EventLoopDelayStatistics',
      'ExecutorChoice',
      'FeedValue',
      'Feeds',
      'FunctionBatch',
      'FunctionConfig',
      'FunctionContext',
      'FunctionDeclaration',
      'FunctionFeed',
      'FunctionHere',
      'FunctionInput',
      'FunctionInstance',
      'FunctionInstanceGroup',
      'FunctionOfGraph',
      'FunctionOfModule',
      'FunctionOptions',
      'FunctionOutput',
      'FunctionOutputs',
      'FunctionResult',
      'FunctionSignature',
      'FunctionWorkerOptions',
      'ImageInput',
      'InferManyOptions',
      'InferManyResult',
      'InferOptions',
      'InferenceErrorCode',
      'InferenceErrorDetails',
      'InlineOptions',
      'InputConfig',
      'InstanceGroup',
      'InstanceKind',
      'InstanceStatistics',
      'ItemSource',
      'LatencyBucket',
      'LatencyDistribution',
      'LatencyPercentiles',
      'Lease',
      'LeaseOptions',
      'LeaseStatistics',
      'LeasedInputs',
      'LiteralConfig',
      'LoadOptions',
      'MapEntry',
      'MapValue',
      'MemoryOptions',
      'ModelCapacity',
      'ModelConfig',
      'ModelEvent',
      'ModelFunction',
      'ModelMetadata',
      'ModelOptions',
      'ModelOrigin',
      'ModelProperties',
      'ModelProvider',
      'ModelSignature',
      'ModelState',
      'ModelStatistics',
      'ModelVersionStatus',
      'NamedStatistics',
      'OldestSequences',
      'OutputConfig',
      'OutputRows',
      'OutputValue',
      'Outputs',
      'OverCostAction',
      'PaddingConfig',
      'PipelineConfig',
      'PipelineInput',
      'PipelineInputs',
      'PipelineOutput',
      'PipelineOutputs',
      'PipelineSignature',
      'PipelineStep',
      'PipelineTensors',
      'ProviderCapability',
      'ProviderDevice',
      'ProviderOptions',
      'ProviderPlugin',
      'QueuePolicy',
      'RawTensor',
      'RawType',
      'RecordingOptions',
      'RefusalReason',
      'RejectionReason',
      'ReportedOutputs',
      'RepositoryEvent',
      'RepositoryModelConfig',
      'RepositoryOptions',
      'RepositoryOutputConfig',
      'RepositoryProblem',
      'RepositoryReport',
      'RequestCost',
      'RequestMessage',
      'ResolvedTraceSettings',
      'ResponseCacheOptions',
      'ResponseCacheStatistics',
      'RowJoining',
      'RunOptions',
      'ScaleOptions',
      'SequenceConfig',
      'SequenceControl',
      'SequenceEvent',
      'SequenceId',
      'SequenceInferOptions',
      'SequenceState',
      'SessionOptions',
      'SignatureOf',
      'StagingKind',
      'StagingOptions',
      'StagingStats',
      'StatisticDuration',
      'StepReport',
      'StepStatistics',
      'StreamInferOptions',
      'StreamOptions',
      'StructuredFeed',
      'StructuredType',
      'TensorConfig',
      'TensorData',
      'TensorMetadata',
      'TensorType',
      'TimeoutAction',
      'TraceEvent',
      'TraceLevel',
      'TraceOptions',
      'TraceSettings',
      'TraceStatistics',
      'UnloadOptions',
      'ValueMetadata',
      'VerifyChoice',
      'VersionStatistics',
      'WarmupOptions',
      'WarmupSample',
      'WorkerEvent',
      'WorkerOptions',
      'WorkerStatistics',
    ])
  })
})

it('a call reaches the queue within six frames', async () => {
  const { enqueue } = RequestQueue.prototype
  let frames: string[] = []
  const watch = vi.spyOn(RequestQueue.prototype, 'enqueue').mockImplementation(function (
    this: RequestQueue<InferRequest>,
    ...args
  ) {
    frames = new Error().stack!.split('\n').filter((line) => line.includes('/src/'))
    return enqueue.apply(this, args)
  })
  onTestFinished(() => watch.mockRestore())
  const model = await load(ownEngine(), identity('float32'))
  await model.infer({ x: new Float32Array(4) })
  expect(frames.length).toBeGreaterThan(1)
  expect(frames.length).toBeLessThanOrEqual(6)
})
