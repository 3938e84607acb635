import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { rules } from '../../src/onnx/row-proof/prove-rows.ts'
import { parseGraph } from './graph-text.ts'
import { proofOf } from './proof.ts'
import { GraphSource } from './random-graphs.ts'
import { refutes, truthOf } from './truth.ts'

/**
 * Holds the proofs of many random graphs against joined runs of ONNX Runtime:
 *
 *     npx tsx test/row-proof/many-graphs.ts --graphs 10000 [--seed 1]
 *
 * Exit code 1 where a proof is refuted; the graph, as text and as a model, is kept in a folder that is printed.
 */
const { values } = parseArgs({
  options: { graphs: { type: 'string', default: '1000' }, seed: { type: 'string', default: '1' } },
})
const first = Number(values.seed)
const total = Number(values.graphs)

class Tally {
  readonly #counts = new Map<string, number>()

  add(key: string): void {
    this.#counts.set(key, this.of(key) + 1)
  }

  of(key: string): number {
    return this.#counts.get(key) ?? 0
  }

  /** The largest first. */
  toString(): string {
    return [...this.#counts]
      .sort((a, b) => b[1] - a[1])
      .map(([key, count]) => `${key} ${count}`)
      .join(', ')
  }
}

const source = await GraphSource.open()
const verdicts = new Tally()
const truths = new Tally()
/** Graphs proved in which an operator leads to an output. */
const proofs = new Tally()
/** Graphs whose rows are independent, which were said to meet or not followed, by the operator at which it broke. */
const falseAlarms = new Tally()
const notFollowed = new Tally()
const folder = mkdtempSync(join(tmpdir(), 'row-proofs-'))
let refuted = 0
let slowest = 0
const begin = performance.now()

for (let seed = first; seed < first + total; seed++) {
  const text = source.graph(seed)
  const graph = parseGraph(text)
  const before = performance.now()
  const proof = proofOf(graph)
  slowest = Math.max(slowest, performance.now() - before)
  const withoutDims = proofOf(graph, 'none')
  const truth = await truthOf(graph, seed)
  verdicts.add(proof.rows)
  truths.add(truth.answer)
  const operator = /^[\w.:]+/.exec(proof.node ?? '')?.[0] ?? 'an output'
  if (proof.rows === 'independent') for (const each of new Set(graph.operators)) proofs.add(each)
  if (proof.rows === 'dependent' && truth.answer === 'same') falseAlarms.add(operator)
  if (proof.rows === 'unknown' && truth.answer === 'same') notFollowed.add(operator)
  if ((proof.rows === 'independent' || withoutDims.rows === 'independent') && refutes(truth)) {
    refuted++
    writeFileSync(join(folder, `${seed}.txt`), text)
    writeFileSync(join(folder, `${seed}.onnx`), graph.model)
    console.log(`refuted: seed ${seed}, ${truth.where}\n${text}\n`)
  }
  if ((seed - first + 1) % 1000 === 0)
    console.error(
      `${seed - first + 1} graphs, ${Math.round((performance.now() - begin) / 1000)} s, ${refuted} refuted`,
    )
}

const seldom = Object.keys(rules).filter((operator) => proofs.of(operator) < 50)
console.log(`${total} graphs from seed ${first} in ${Math.round((performance.now() - begin) / 1000)} s; slowest proof ${slowest.toFixed(1)} ms
verdicts: ${verdicts}
truths: ${truths}
refuted: ${refuted}${refuted > 0 ? ` (in ${folder})` : ''}
said to meet, while independent: ${falseAlarms}
not followed, while independent: ${notFollowed}
rules in fewer than 50 proofs: ${seldom.map((operator) => `${operator} ${proofs.of(operator)}`).join(', ')}
rules in proofs: ${proofs}`)
process.exitCode = refuted > 0 ? 1 : 0
