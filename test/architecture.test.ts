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
  [
    'foundations',
    [
      'async-context.ts',
      'exact-json.ts',
      'bounded-json.ts',
      'browser-requests.ts',
      'connection-end.ts',
      'describe.ts',
      'median.ts',
      'message-of.ts',
      'carriers.ts',
      'elements.ts',
      'errors.ts',
      'file-path.ts',
      'own-files.ts',
      'own-program.ts',
      'regular-file.ts',
      'run-scope.ts',
      'tensor.ts',
      'typed-array.ts',
      'float16.ts',
      'small-floats.ts',
      'metadata.ts',
      'value-type.ts',
      'values.ts',
      'clock.ts',
      'indexed-heap.ts',
      'library-version.ts',
      'platform.ts',
      'platform-error.ts',
      'seeded-random.ts',
      'slices.ts',
      'version-number.ts',
      'request/abort-watch.ts',
    ],
  ],
  ['what users may say', ['config/']],
  ['what draws in pages', ['web-page/charts/']],
  ['pages that hold all they need', ['web-page/']],
  ['what runs in the page of the inspector', ['inspector/page/']],
  ['staging memory, and loops over it', ['memory/']],
  [
    'what stands by itself',
    [
      'functions/',
      'observability/',
      'image/',
      'triton-repository/',
      'onnx-file/',
      'latency/',
      'compiled-models/',
    ],
  ],
  ['requests as they came', ['arrivals/']],
  ['what a graph says of its rows', ['row-proof/']],
  ['traces: made, and read', ['tracing/', 'trace-files/']],
  [
    'the queue, and the way to run something',
    ['queue/', 'executor/executor.ts', 'executor/thread-start.ts', 'executor/bytes-id.ts'],
  ],
  [
    'requests; the executors; how a function is run',
    ['request/', 'executor/binding/', 'executor/native/', 'function-run/'],
  ],
  ['functions on threads of their own', ['executor/function/']],
  ['threads, and what runs in them', ['workers/', 'worker-thread/', 'function-thread/']],
  ['whether rows are independent', ['row-check/']],
  ['an instance of a model', ['instance/']],
  ['queue and instances joined', ['scheduler/']],
  ['requests that go on from each other', ['sequences/']],
  ['answers that are shared', ['response-cache/']],
  ['how many instances a model has', ['scaling/']],
  ['the queue on simulated time', ['simulation/']],
  ['rows that are written in place', ['lease/']],
  ['models joined to pipelines', ['pipelines/']],
  [
    'a model',
    [
      'loaded-model.ts',
      'loaded-pipeline.ts',
      'model-uses.ts',
      'load-failure.ts',
      'model.ts',
      'model-registry.ts',
      'model-state.ts',
      'model-target.ts',
      'serving-statistics.ts',
      'submission.ts',
      'classification.ts',
      'model-version.ts',
      'named-model.ts',
      'sequence-stream.ts',
      'row-bytes.ts',
      'engine-services.ts',
    ],
  ],
  [
    'the engine',
    [
      'engine.ts',
      'engine-loads.ts',
      'engine-trace.ts',
      'engine-resources.ts',
      'engine-recordings.ts',
      'engine-repositories.ts',
      'engine-statistics.ts',
      'engine-parts.ts',
      'model-facades.ts',
      'dropped-engines.ts',
    ],
  ],
  ['reports to others', ['inspector/', 'opentelemetry/', 'prometheus/']],
  ['the API of onnxruntime-node', ['ort/']],
  ['pipelines of transformers.js', ['transformers/']],
  ['one engine for many processes', ['processes/']],
  ['protocols of others', ['kserve/']],
  ['the public face', ['index.ts']],
  ['what measurements ask', ['perf/input/']],
  ['how often they ask', ['perf/load/']],
  ['what runs in the page of a report', ['perf/html-report/page/']],
  ['scenarios, by the rules of others', ['perf/scenarios/', 'perf/accuracy/']],
  ['measuring a model', ['perf/']],
  ['what is told of measurements', ['perf/report/', 'perf/html-report/']],
  ['recordings sent once more', ['perf/replay/']],
  ['finding its best configuration', ['tune/']],
  ['programs', ['cli/', 'trial-process/']],
]

interface Import {
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
    return [...statements, ...calls].map(([, , path]) => ({
      from,
      to: posix.join(posix.dirname(from), path!),
    }))
  })
}

const texts = textsIn(root)
const files = [...texts.keys()]
const imports = importsIn(texts)

/** The proof and its rules are one. */
const folderOf = (file: string) => posix.dirname(file).replace('row-proof/rules', 'row-proof')
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

const architecture = readFileSync(`${top}docs/architecture.md`, 'utf8')

/** The lines of the picture in docs/architecture.md that follows a sentence. */
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

  it('import from lower floors, or from their own folder', () => {
    const upwards = imports.filter(({ from, to }) => {
      const down = floorOf(to) < floorOf(from)
      return !down && !(folderOf(to) === folderOf(from) && floorOf(to) === floorOf(from))
    })
    expect(upwards.map(shown)).toEqual([])
  })

  it('do not import each other in circles, not even for types', () => {
    expect(circle(imports)).toBeNull()
  })

  it('have a name of their own', () => {
    const names = files.map((file) => posix.basename(file))
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })

  it('have 600 lines at most, and 100 at most in the middle', () => {
    const lengths = files.map((file) => ({ file, lines: texts.get(file)!.split('\n').length - 1 }))
    expect(lengths.filter(({ lines }) => lines > 600)).toEqual([])
    const inOrder = lengths.map(({ lines }) => lines).sort((a, b) => a - b)
    expect(inOrder[Math.floor(inOrder.length / 2)]).toBeLessThanOrEqual(100)
  })
})

describe('the rooms in docs/architecture.md', () => {
  const foundations = new Set(files.filter((file) => !file.includes('/') && floorOf(file) === 0))
  const roomOf = (file: string) =>
    file.includes('/') ? folderOf(file) : foundations.has(file) ? 'foundations' : 'engine'
  const rooms = picture('The rooms of `src/`').reduce<{ room: string; to: string[] }[]>((before, line) => {
    const [left, arrows = ''] = line.split('->')
    const isMore = line.startsWith(' ')
    const to = (isMore ? line : arrows).split(' ').filter(Boolean)
    if (isMore) before.at(-1)!.to.push(...to)
    else before.push({ room: left!.split(' ', 1)[0]!, to })
    return before
  }, [])

  it('are all rooms', () => {
    expect(rooms.map(({ room }) => room).sort()).toEqual([...new Set(files.map(roomOf))].sort())
  })

  it('show the imports between them, all of them and no others', () => {
    const shownEdges = rooms.flatMap(({ room, to }) => to.map((other) => `${room} -> ${other}`))
    const edges = imports
      .map(({ from, to }) => `${roomOf(from)} -> ${roomOf(to)}`)
      .filter((edge) => !/^(.*) -> \1$/.test(edge))
    expect(shownEdges.sort()).toEqual([...new Set(edges)].sort())
  })

  it('stand in an order in which every arrow leads down', () => {
    const order = rooms.map(({ room }) => room)
    const upwards = rooms.flatMap(({ room, to }) =>
      to.filter((other) => order.indexOf(other) <= order.indexOf(room)).map((other) => `${room} -> ${other}`),
    )
    expect(upwards).toEqual([])
  })
})

describe("a request's way in docs/architecture.md", () => {
  const steps = picture("A request's way").map((line) => ({
    depth: line.length - line.trimStart().length,
    file: line.trim().split(' ', 1)[0]!,
  }))

  /** Where two files meet that do not know each other: a seam between them, or the words that two threads share. */
  const meetingPlaces = ['executor/executor.ts', 'executor/binding/control-block.ts']
  const importsOf = (file: string) => imports.filter(({ from }) => from === file).map(({ to }) => to)
  const areLinked = (a: string, b: string) =>
    importsOf(a).includes(b) ||
    importsOf(b).includes(a) ||
    meetingPlaces.some((place) => importsOf(a).includes(place) && importsOf(b).includes(place))

  it('is made of 30 files at most, each of which exists and is passed once', () => {
    const passed = steps.map(({ file }) => file)
    expect(passed.filter((file) => !texts.has(file))).toEqual([])
    expect(new Set(passed).size).toBe(passed.length)
    expect(passed.length).toBeGreaterThan(10)
    expect(passed.length).toBeLessThanOrEqual(30)
  })

  it('goes from file to file by imports', () => {
    const parentOf = (index: number) =>
      steps.slice(0, index).findLast(({ depth }) => depth < steps[index]!.depth)
    const unlinked = steps.flatMap(({ file }, index) => {
      const parent = parentOf(index)
      return index === 0 || (parent !== undefined && areLinked(parent.file, file))
        ? []
        : [`${parent?.file} - ${file}`]
    })
    expect(unlinked).toEqual([])
  })
})

describe('the files of bench/ and test/', () => {
  it.each(['bench/', 'test/'])('of %s do not import each other in circles', (folder) => {
    const edges = importsIn(textsIn(top + folder))
    expect(edges.length).toBeGreaterThan(50)
    expect(circle(edges)).toBeNull()
  })
})

describe('packages', () => {
  const naming = (name: string) => {
    const literal = new RegExp(`['"\`]${name}(?:/[^'"\`]*)?['"\`]`)
    return files.filter((file) => literal.test(texts.get(file)!))
  }

  it('onnxruntime-node is known to the worker alone', () => {
    expect(naming('onnxruntime-node').sort()).toEqual([
      'cli/signature-module.ts', // in the text that it writes
      'executor/native/native-ort.ts', // looks for its library
      'transformers/session-origins.ts', // looks for the class of its sessions
      'worker-thread/onnxruntime.ts',
      'workers/cuda-provider.ts', // looks for a file of it
    ])
  })

  it('OpenTelemetry is known to one room', () => {
    expect(naming('@opentelemetry/api').filter((file) => !file.startsWith('opentelemetry/'))).toEqual([])
  })

  it('Piscina is known to one file', () => {
    expect(naming('piscina')).toEqual(['workers/thread-pool.ts'])
  })

  it('prom-client is known to one file, which neither the engine nor anything that it needs imports', () => {
    expect(naming('prom-client')).toEqual(['prometheus/prom-client.ts'])
    expect(
      imports.filter(({ from, to }) => to.startsWith('prometheus/') && !from.startsWith('prometheus/')),
    ).toEqual([])
  })

  it('protobufjs is known to those who have a schema, one for each format', () => {
    expect(naming('protobufjs').sort()).toEqual([
      'onnx-file/onnx-schema.ts',
      'trace-files/perfetto-schema.ts',
    ])
  })

  it('sharp and what reports to others may be left out, and what only a build of the addon needs is left to those who build it', () => {
    const manifest = JSON.parse(readFileSync(`${root}../package.json`, 'utf8')) as Record<
      string,
      Record<string, unknown>
    >
    expect(Object.keys(manifest['dependencies']!).sort()).toEqual([
      'cli-progress',
      'cli-table3',
      'commander',
      'lossless-json',
      'lru-cache',
      'onnxruntime-common',
      'piscina',
      'protobufjs',
      'uplot',
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

  it('sharp is known to image/ alone', () => {
    expect(naming('sharp').filter((file) => !file.startsWith('image/'))).toEqual([])
  })

  it('the queue needs nothing but the clock, the words of batching, what is known of run times, and a heap', () => {
    const foreign = files
      .filter((file) => file.startsWith('queue/'))
      .flatMap((file) => [...texts.get(file)!.matchAll(/from '([^']+)'/g)].map(([, path]) => path!))
      .filter(
        (path) => !/^(\.\/|\.\.\/(clock|indexed-heap|config\/batching|latency\/[\w-]+)\.ts$)/.test(path),
      )
    expect(foreign).toEqual([])
  })
})

describe('the two sides of a thread', () => {
  it('meet only in the protocol and the control block', () => {
    const crossing = imports.filter(
      ({ from, to }) =>
        /^(worker|function)-thread$/.test(folderOf(from)) &&
        /^(workers|executor|instance|scheduler)/.test(to),
    )
    expect([...new Set(crossing.map(({ to }) => to))].sort()).toEqual([
      'executor/binding/bell.ts',
      'executor/binding/control-block.ts',
      'executor/binding/protocol.ts',
      'executor/executor.ts',
      'executor/thread-start.ts',
    ])
  })

  it('leave the worker to be loaded by its path', () => {
    expect(
      imports.filter(
        ({ from, to }) => /^(worker|function)-thread$/.test(folderOf(to)) && folderOf(from) !== folderOf(to),
      ),
    ).toEqual([])
  })

  it('and so the program in which models are tried', () => {
    expect(
      imports.filter(
        ({ from, to }) => folderOf(to) === 'trial-process' && folderOf(from) !== 'trial-process',
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
