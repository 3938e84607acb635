import { basename } from 'node:path'
import Table from 'cli-table3'
import type { Outcome } from './classify.ts'

/** What `model.stats()` says of the batches of one size. */
export interface BatchStat {
  batchSize: number
  computeInfer: { count: number; ns: number }
}

/** What `engine.capabilities()` says of the memory in use. */
export interface StagingInfo {
  staging: { kind: string | null; reason: string }
  native: { available: boolean; path?: string; reason?: string }
}

/** A table is read by a person: this many rows of it are printed where not all are asked for. */
const defaultRows = 20

/** One row per file, `rows` at most: those that could not be read and those that are wrong by their name first, then the others in the order given. */
export function outcomeTable(
  outcomes: readonly Outcome[],
  labels: readonly string[] | undefined,
  rows = defaultRows,
): string {
  const table = new Table({
    head: ['file', 'label', 'probability'],
    colAligns: ['left', 'left', 'right'],
    style: PLAIN,
  })
  const wrongFirst = outcomes.toSorted((a, b) => Number(isRight(a, labels)) - Number(isRight(b, labels)))
  for (const outcome of wrongFirst.slice(0, rows)) {
    if ('error' in outcome) table.push([outcome.file, { colSpan: 2, content: outcome.error }])
    else table.push([outcome.file, outcome.label, outcome.probability.toFixed(4)])
  }
  const wrongCount = outcomes.filter((outcome) => !isRight(outcome, labels)).length
  const order =
    wrongCount === 0
      ? ''
      : `files that are wrong or unreadable (${wrongCount}) come first, then the others in the given order:\n`
  const more = wrongFirst.slice(rows)
  if (more.length === 0) return order + table.toString()
  const wrong = more.filter((outcome) => !isRight(outcome, labels)).length
  return `${order}${table.toString()}\nand ${more.length} more${wrong === 0 ? '' : `, ${wrong} of them wrong or unreadable`}; --all shows them`
}

const PLAIN = { head: [], border: [], compact: true }

/** The figures under the table. */
export function summary(
  outcomes: readonly Outcome[],
  jobs: number,
  elapsedMs: number,
  batches: readonly BatchStat[],
  labels: readonly string[] | undefined,
): string {
  const unreadable = outcomes.filter((outcome) => 'error' in outcome).length
  const classified = outcomes.length - unreadable
  const lines = [
    `${classified} images through ${jobs} concurrent jobs in ${(elapsedMs / 1000).toFixed(2)} s: ` +
      `${((classified * 1000) / elapsedMs).toFixed(1)} images/s, decoding included`,
    ...batchLines(batches),
  ]
  const accuracy = accuracyOf(outcomes, labels)
  if (accuracy !== undefined) {
    const share = ((100 * accuracy.right) / accuracy.known).toFixed(2)
    lines.push(
      `accuracy: ${share} % (${accuracy.right} of the ${accuracy.known} images whose name tells the label)`,
    )
  }
  if (unreadable > 0) lines.push(`${unreadable} of ${outcomes.length} files could not be read as images`)
  return lines.join('\n')
}

function batchLines(batches: readonly BatchStat[]): string[] {
  if (batches.length === 0) return []
  const count = batches.reduce((sum, { computeInfer }) => sum + computeInfer.count, 0)
  const ms = batches.reduce((sum, { computeInfer }) => sum + computeInfer.ns, 0) / 1e6
  const table = new Table({
    head: ['batch size', 'batches', 'ms each'],
    colAligns: ['right', 'right', 'right'],
    style: PLAIN,
  })
  for (const { batchSize, computeInfer } of batches) {
    table.push([batchSize, computeInfer.count, (computeInfer.ns / computeInfer.count / 1e6).toFixed(3)])
  }
  return [`${count} batches, ${ms.toFixed(1)} ms in the model:`, table.toString()]
}

/** Files named `<label>-...` tell their label; undefined when none does. */
export function accuracyOf(
  outcomes: readonly Outcome[],
  labels: readonly string[] | undefined,
): { known: number; right: number } | undefined {
  const known = outcomes.filter(
    (outcome) => !('error' in outcome) && expectedOf(outcome, labels) !== undefined,
  )
  return known.length === 0
    ? undefined
    : { known: known.length, right: known.filter((outcome) => isRight(outcome, labels)).length }
}

/** Whether it has the label that the file's name tells, or any where that tells none. */
function isRight(outcome: Outcome, labels: readonly string[] | undefined): boolean {
  if ('error' in outcome) return false
  const expected = expectedOf(outcome, labels)
  return expected === undefined || outcome.label === expected
}

function expectedOf({ file }: Outcome, labels: readonly string[] | undefined): string | undefined {
  return labels?.find((label) => basename(file).startsWith(`${label}-`))
}

/** Which memory the batches are gathered in, and what is missing for a better one. */
export function stagingLines({ staging, native }: StagingInfo): string {
  const addon = native.available
    ? `in use (${native.path})`
    : `not in use: ${native.reason ?? 'no reason given'}`
  return `staging memory: ${staging.kind ?? 'none'} (${staging.reason})\nnative addon: ${addon}`
}
