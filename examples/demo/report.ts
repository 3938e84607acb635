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

/** One row per file, in the order given. */
export function outcomeTable(outcomes: readonly Outcome[]): string {
  const table = new Table({ head: ['file', 'label', 'probability'], colAligns: ['left', 'left', 'right'], style: PLAIN })
  for (const outcome of outcomes) {
    if ('error' in outcome) table.push([outcome.file, { colSpan: 2, content: outcome.error }])
    else table.push([outcome.file, outcome.label, outcome.probability.toFixed(4)])
  }
  return table.toString()
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
    lines.push(`accuracy: ${share} % (${accuracy.right} of the ${accuracy.known} images whose name tells the label)`)
  }
  if (unreadable > 0) lines.push(`${unreadable} of ${outcomes.length} files could not be read as images`)
  return lines.join('\n')
}

function batchLines(batches: readonly BatchStat[]): string[] {
  if (batches.length === 0) return []
  const count = batches.reduce((sum, { computeInfer }) => sum + computeInfer.count, 0)
  const ms = batches.reduce((sum, { computeInfer }) => sum + computeInfer.ns, 0) / 1e6
  const table = new Table({ head: ['batch size', 'batches', 'ms each'], colAligns: ['right', 'right', 'right'], style: PLAIN })
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
  let known = 0
  let right = 0
  for (const outcome of outcomes) {
    const expected = labels?.find((label) => basename(outcome.file).startsWith(`${label}-`))
    if (expected === undefined || 'error' in outcome) continue
    known++
    if (outcome.label === expected) right++
  }
  return known === 0 ? undefined : { known, right }
}

/** Which memory the batches are gathered in, and what is missing for a better one. */
export function stagingLines({ staging, native }: StagingInfo): string {
  const addon = native.available ? `in use (${native.path})` : `not in use: ${native.reason ?? 'no reason given'}`
  return `staging memory: ${staging.kind ?? 'none'} (${staging.reason})\nnative addon: ${addon}`
}
