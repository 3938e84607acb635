import { createHash } from 'node:crypto'
import { serialize } from 'node:v8'
import type { ResolvedConfig } from '../config/resolve-model-config.ts'
import { checkRows, type RowVerdict } from '../instance/row-check.ts'
import { RowForm } from '../instance/row-form.ts'
import { singleRows, type TrialFeeds } from '../instance/trial-feeds.ts'
import type { WarmUp } from '../instance/warm-up.ts'
import type { Padding } from '../request/padding.ts'
import type { WorkerSession } from '../workers/worker-session.ts'
import type { Joining } from './joining.ts'

/** Rows of warm-up samples that take part. */
const maxSamples = 4

/**
 * Finds out during a load whether rows are independent, where that is to be found out.
 *
 * @param warmUp what the model is warmed up with; samples of the user are tried as well.
 * @param session of one of the instances. What is found is noted there, for others that share it.
 * @returns whether the instance has been warmed up by it.
 */
export async function checkAtLoad(
  joining: Joining,
  { optionalInputs, padding: paddingConfig }: ResolvedConfig,
  padding: Padding | null,
  warmUp: Pick<WarmUp, 'samples' | 'isOneRow'>,
  session: Pick<WorkerSession, 'runSample' | 'note' | 'setNote'>,
): Promise<boolean> {
  if (!joining.undecided) return false
  const { samples } = warmUp
  const form = new RowForm(joining.stacked, samples[0]?.feeds ?? null)
  const { inputs, outputs, maxBatchSize } = form.metadata
  const key = `rows ${JSON.stringify([maxBatchSize, paddingConfig, optionalInputs, joining.tolerance, ...form.axes, ...outputs.flatMap(({ rows }, index) => (rows === undefined ? [] : [{ index, rows }])), ...digestOf(samples)])}`
  const known = readVerdict(session.note(key))
  if (known !== null) {
    joining.found(known)
    return true
  }
  const verdict = await checkRows(
    { inputs, outputs },
    {
      maxBatchSize,
      samples: samples.flatMap(({ feeds }) => singleRows(feeds as TrialFeeds, maxSamples)).slice(0, maxSamples),
      padding,
      tolerance: joining.tolerance,
      optional: new Set(inputs.flatMap(({ name }, index) => (optionalInputs.includes(name) ? [index] : []))),
      replacesWarmUp: warmUp.isOneRow,
    },
    (feeds) => form.run(session, feeds, true),
  )
  joining.found(verdict)
  if (verdict.largestDifference !== null) session.setNote(key, writeVerdict(verdict))
  return verdict.largestDifference !== null
}

/** What tells samples from others; nothing for none. */
function digestOf(samples: WarmUp['samples']): string[] {
  return samples.length === 0 ? [] : [createHash('sha256').update(serialize(samples.map(({ feeds }) => feeds))).digest('hex')]
}

/** As text; the difference may be infinite, which JSON cannot say. */
function writeVerdict({ rows, largestDifference, reason }: RowVerdict): string {
  return JSON.stringify([rows, String(largestDifference), reason])
}

function readVerdict(text: string): RowVerdict | null {
  if (text === '') return null
  const [rows, largestDifference, reason] = JSON.parse(text) as [RowVerdict['rows'], string, string]
  return { rows, largestDifference: Number(largestDifference), reason, runs: 0 }
}
