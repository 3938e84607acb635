import { createHash } from 'node:crypto'
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { step } from '../environments.ts'
import { cacheFolder, source } from '../folders.ts'
import { PeerMissing, type InProcessPeer, type PeerOptions, type Versions } from '../peer.ts'
import { noForm } from './python.ts'
import {
  noJpeg,
  setUpTriton,
  tritonBackends,
  tritonOfWheel,
  tritonRepository,
  tritonSettings,
} from './triton.ts'

const program = source('triton/in-process.cc')
const headers = ['arrivals.h', 'measurement.h'].map((name) => source(`../client/${name}`))

function built(): string {
  const hash = createHash('sha256')
  for (const file of [program, ...headers]) hash.update(readFileSync(file))
  return join(cacheFolder('triton'), `in-process-${hash.digest('hex').slice(0, 12)}`)
}

async function setUp(options: PeerOptions): Promise<Versions> {
  const versions = await setUpTriton(options)
  const include = join(tritonBackends(), 'include')
  if (!existsSync(join(include, 'triton/core/tritonserver.h')))
    throw new PeerMissing(`the headers of its C API are missing: ${include}/triton/core/tritonserver.h`)
  if (existsSync(built())) return versions
  const { library } = tritonOfWheel()
  const unfinished = `${built()}.${process.pid}.tmp`
  // The libraries that its own needs lie beside it.
  const link = [
    library,
    `-Wl,-rpath,${dirname(library)}`,
    `-Wl,-rpath-link,${dirname(library)}`,
    '-Wl,--disable-new-dtags',
    '-Wl,--allow-shlib-undefined',
    '-pthread',
  ]
  await step(process.env['CXX'] ?? 'c++', [
    '-std=c++20',
    '-O2',
    '-Wall',
    `-I${include}`,
    '-o',
    unfinished,
    program,
    ...link,
  ])
  renameSync(unfinished, built())
  return versions
}

/** The strongest peer in kind. */
export const tritonInProcess: InProcessPeer = {
  kind: 'in process',
  name: 'triton-in-process',
  describe:
    "Triton in its callers' process by its C API, in C++, where its back end is given by --triton-backends",
  setUp,
  lacks: (workload) => noForm(workload) ?? noJpeg(workload),
  settings: tritonSettings,
  program(workload, levels) {
    const { input, output, rowDims } = workload.model
    const loads = levels.map(({ callers = 0, warmupSeconds, warmupRequests, seconds, arrivals = '' }) =>
      [callers, warmupSeconds, warmupRequests, seconds, arrivals].join(':'),
    )
    return {
      file: built(),
      args: [
        tritonRepository(workload),
        tritonBackends(),
        input,
        output,
        rowDims.join(),
        workload.files.join(),
        loads.join(),
      ],
    }
  },
}
