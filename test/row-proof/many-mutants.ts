import { fork } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { answerQuestions } from '../../src/onnx/row-proof/prove-rows.ts'
import { readGraph } from '../../src/onnx/row-proof/read-graph.ts'
import { mulberry32 } from '../models/random.ts'
import { parseGraph, type GraphText } from './graph-text.ts'
import { mutated } from './mutated-files.ts'
import { allCases } from './operator-cases.ts'
import { questionOf } from './proof.ts'
import { openGraph, refutes, truthOf } from './truth.ts'

/**
 * Changes the bytes of operator cases as a hostile writer of protobuf might, and holds what is proved of them against joined runs of
 * ONNX Runtime:
 *
 *     npx tsx test/row-proof/many-mutants.ts --mutants 100000 [--seed 1]
 *
 * They run in a process of their own, as some end it. Exit code 1 where a proof is refuted; the files are kept in a folder that is printed.
 */
const { values } = parseArgs({
  options: {
    mutants: { type: 'string', default: '10000' },
    seed: { type: 'string', default: '1' },
    folder: { type: 'string' },
  },
})
const total = Number(values.mutants)
const first = Number(values.seed)

/** How long one mutant may take, in milliseconds: a loop may have become endless. */
const patience = 30_000

type Report =
  | 'begins'
  | 'not proved'
  | 'proved, and refused'
  | 'proved, and of other inputs'
  | 'proved, and cannot run'
  | 'independent'
  | 'refuted'

if (values.folder === undefined) await runAll()
else await runHere(values.folder)

/** Starts processes in turn, each behind the mutant that ended the one before. */
async function runAll(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'row-proof-mutants-'))
  const tally = new Map<string, number>()
  const count = (what: string) => tally.set(what, (tally.get(what) ?? 0) + 1)
  for (let seed = first; seed < first + total;) {
    seed = await new Promise<number>((resolve) => {
      let at = seed
      const child = fork(
        fileURLToPath(import.meta.url),
        ['--folder', folder, '--seed', String(seed), '--mutants', String(first + total - seed)],
        { stdio: ['ignore', 'inherit', 'ignore', 'ipc'] },
      )
      let watch = setTimeout(() => child.kill('SIGKILL'), patience)
      child.on('message', ([index, report]: [number, Report]) => {
        clearTimeout(watch)
        watch = setTimeout(() => child.kill('SIGKILL'), patience)
        at = index
        if (report !== 'begins') count(report)
        if (report !== 'begins' && (index - first + 1) % 10_000 === 0)
          console.error(`${index - first + 1} mutants: ${shown(tally)}`)
      })
      child.on('exit', (code) => {
        clearTimeout(watch)
        if (code !== 0) count('ended the process')
        resolve(code === 0 ? first + total : at + 1)
      })
    })
  }
  console.log(
    `${total} mutants from seed ${first}: ${shown(tally)}${tally.has('refuted') ? ` (in ${folder})` : ''}`,
  )
  process.exitCode = tally.has('refuted') ? 1 : 0
}

function shown(tally: ReadonlyMap<string, number>): string {
  return [...tally]
    .sort((a, b) => b[1] - a[1])
    .map(([what, times]) => `${what} ${times}`)
    .join(', ')
}

async function runHere(folder: string): Promise<void> {
  const graphs = new Map<string, GraphText>()
  for (let seed = first; seed < first + total; seed++) {
    await report(seed, 'begins')
    const random = mulberry32(seed)
    const { text } = allCases[Math.floor(random() * allCases.length)]!
    const graph = graphs.get(text) ?? parseGraph(text)
    graphs.set(text, graph)
    const model = mutated(graph.model, random)
    await report(seed, await judged({ ...graph, model, withoutDeadEnds: () => model }, seed, folder, text))
  }
  process.disconnect()
}

/** Only once it has gone: the next step may end the process. */
function report(seed: number, what: Report): Promise<void> {
  return new Promise((resolve) => process.send!([seed, what], () => resolve()))
}

async function judged(mutant: GraphText, seed: number, folder: string, text: string): Promise<Report> {
  const questions = (['all', 'none'] as const).map((known) => questionOf(mutant, known))
  if (answerQuestions(() => readGraph(mutant.model), questions).at(-1)!.rows !== 'independent')
    return 'not proved'
  try {
    if (!(await hasInputs(mutant))) return 'proved, and of other inputs'
  } catch {
    return 'proved, and refused'
  }
  const truth = await truthOf(mutant, seed)
  if (truth.answer === 'cannot run') return 'proved, and cannot run'
  if (!refutes(truth)) return 'independent'
  writeFileSync(join(folder, `${seed}.onnx`), mutant.model)
  console.log(`refuted: seed ${seed}, ${truth.where}\n${text}\n`)
  return 'refuted'
}

/** Whether ONNX Runtime says that the model has the inputs of the question; what is asked of a model is what that says. */
async function hasInputs({ model, inputs }: GraphText): Promise<boolean> {
  const session = await openGraph(model)
  const found = session.inputMetadata
  await session.release()
  return (
    found.length === inputs.length &&
    inputs.every(({ name, type, dims }) =>
      found.some(
        (each) =>
          each.name === name &&
          each.isTensor &&
          each.type === type &&
          each.shape.length === dims.length &&
          each.shape.every((size, axis) => typeof size === 'string' || size === dims[axis]),
      ),
    )
  )
}
