import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BenchModel } from './models.ts'
import { ourSides, type OurSide } from './side.ts'

/** Instructions by what they are spent on. */
export type Instructions = Readonly<Record<string, number>>

/** All parts, in the order of a table. */
export const instructionParts = [
  'compiled JavaScript',
  'Node and V8',
  'addon',
  "onnxruntime-node's binding",
  'ONNX Runtime',
  'C library',
] as const

/** The part that an object file of the process belongs to. Code that was compiled at run time is in no object file. */
function partOf(object: string): string {
  if (object.includes('libonnxruntime')) return 'ONNX Runtime'
  if (object.includes('onnxruntime_binding')) return "onnxruntime-node's binding"
  if (object.endsWith('zerohop.node')) return 'addon'
  if (object === '???' || object === '') return 'compiled JavaScript'
  if (object.endsWith('/node')) return 'Node and V8'
  return 'C library'
}

/** Sums up what callgrind wrote about one thread: the cost of each function itself, by the object file that it is in. */
export function instructionsOf(file: string): Instructions {
  const names = new Map<string, string>()
  const sums: Record<string, number> = {}
  let part = partOf('')
  let isCall = false
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const object = /^ob=(\(\d+\))(?: (.*))?$/.exec(line) ?? /^cob=(\(\d+\))(?: (.*))?$/.exec(line)
    if (object !== null) {
      const [, id, name] = object as unknown as [string, string, string | undefined]
      if (name !== undefined) names.set(id, name)
      if (line.startsWith('ob=')) part = partOf(names.get(id) ?? '')
    } else if (line.startsWith('calls=')) isCall = true
    else if (/^[+\-*\d]/.test(line)) {
      // The line after a call says what was spent in the function that was called: that is counted there.
      if (!isCall) sums[part] = (sums[part] ?? 0) + Number(line.split(' ')[1] ?? 0)
      isCall = false
    }
  }
  return sums
}

/** Instructions in ONNX Runtime during a whole run. A thread with fewer runs no model. */
const leastOfWorker = 1_000_000
const program = fileURLToPath(new URL('programs/requests.mjs', import.meta.url))

/** What one thread spent on a request. */
export interface ThreadInstructions {
  readonly thread: 'application' | 'worker'
  readonly all: number
  readonly parts: Instructions
}

/**
 * Counts the instructions of one request with valgrind, which takes minutes: on the application's thread, and on the worker's
 * if there is one. They are the difference of two runs of different length, without start and warming up. With its defaults zerohop
 * dispatches all batches to the worker: under valgrind no run is short enough to be inline.
 */
export function instructionsPerRequest(
  side: OurSide | 'batcher',
  {
    model,
    ...asked
  }: { readonly model: BenchModel; readonly maxBatchSize: number; readonly callers: number },
  [fewer, more]: readonly [number, number],
): ThreadInstructions[] {
  const engine = side === 'batcher' ? null : ourSides[side]
  const [few, many] = [fewer, more].map((requests) => counted({ engine, ...model, ...asked, requests })) as [
    Instructions[],
    Instructions[],
  ]
  const threads = {
    application: [few[0]!, many[0]!],
    worker: [workerOf(few, many), workerOf(many, few)],
  } as const
  return (['application', 'worker'] as const).flatMap((thread) => {
    const [before, after] = threads[thread]
    if (after === undefined) return []
    const parts = Object.fromEntries(
      Object.entries(after).map(([part, count]) => [
        part,
        Math.round((count - (before?.[part] ?? 0)) / (more - fewer)),
      ]),
    )
    return [{ thread, all: Object.values(parts).reduce((sum, count) => sum + count, 0), parts }]
  })
}

/**
 * The thread that runs the model beside the application's, if there is one. A thread that only opens the model spends about the
 * same in both runs.
 */
export function workerOf(
  [, ...threads]: readonly Instructions[],
  [, ...others]: readonly Instructions[],
): Instructions | undefined {
  const ran = (thread: Instructions) => thread['ONNX Runtime'] ?? 0
  const isInBoth = (thread: Instructions) =>
    others.some((other) => Math.abs(ran(other) - ran(thread)) < ran(thread) / 5)
  return threads
    .filter((thread) => ran(thread) > leastOfWorker && !isInBoth(thread))
    .toSorted((a, b) => ran(b) - ran(a))[0]
}

/** Instructions of the whole process, by thread. */
function counted(told: object): Instructions[] {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  try {
    const options = [
      '--tool=callgrind',
      '--smc-check=all-non-file',
      '--separate-threads=yes',
      `--callgrind-out-file=${folder}/out`,
    ]
    const { status, stderr, error } = spawnSync(
      'valgrind',
      [...options, process.execPath, program, JSON.stringify(told)],
      { encoding: 'utf8', env: { ...process.env, ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' } },
    )
    if (status !== 0)
      throw new Error(`valgrind ended with ${error?.message ?? `code ${status}: ${stderr.slice(-2000)}`}`)
    const files = readdirSync(folder).filter((name) => name.startsWith('out-'))
    return files.toSorted().map((name) => instructionsOf(join(folder, name)))
  } finally {
    rmSync(folder, { recursive: true })
  }
}
