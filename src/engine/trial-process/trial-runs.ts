import { compareEntry } from '../../models/row-check/compare-values.ts'
import type { TrialFeeds } from '../../models/row-check/trial-feeds.ts'
import type { LoadedModel } from '../loaded-model.ts'
import type { MailedValue } from '../../tensor/values.ts'
import { madeUpFeeds } from './made-up-feeds.ts'

/** By how much a float of the compiled form may differ, relative to the largest of its output. */
const tolerance = 1e-5

/** A request, and what it gave. */
export interface TrialRun {
  readonly feeds: TrialFeeds
  readonly outputs: readonly MailedValue[]
}

/** Runs a model on the first made-up requests that it can run; none when there are no such. */
export async function runOnMadeUp(
  { scheduler, session }: LoadedModel,
  optionalInputs: readonly string[],
): Promise<TrialRun[]> {
  const { inputs } = scheduler!.metadata
  const optional = new Set(
    inputs.flatMap(({ name }, index) => (optionalInputs.includes(name) ? [index] : [])),
  )
  for (const requests of madeUpFeeds(inputs, optional)) {
    const runs: TrialRun[] = []
    for (const feeds of requests) {
      const { error, outputs } = await session.runSample(feeds, true)
      if (error === null) runs.push({ feeds, outputs })
    }
    if (runs.length > 0) return runs
  }
  return []
}

/** Why the compiled form of a model is not that model, as far as its description and these runs show; `null` when they show nothing. */
export async function differenceFrom(
  model: Pick<LoadedModel, 'scheduler'>,
  runs: readonly TrialRun[],
  compiled: LoadedModel,
): Promise<string | null> {
  const described = ({ scheduler }: Pick<LoadedModel, 'scheduler'>) => {
    const { inputs, outputs, unservableOutputs } = scheduler!.metadata
    return JSON.stringify([inputs, outputs, unservableOutputs])
  }
  if (described(model) !== described(compiled))
    return `it has other inputs or outputs: ${described(compiled)} instead of ${described(model)}`
  for (const { feeds, outputs } of runs) {
    const { error, outputs: again } = await compiled.session.runSample(feeds, true)
    if (error !== null) return `it fails where the model does not: ${error}`
    for (const [index, { name }] of compiled.scheduler!.metadata.outputs.entries()) {
      const { difference, reason } = compareEntry(name, outputs[index]!, again[index]!, tolerance)
      if (reason !== null) return `its output '${name}' differs by ${difference} of the largest value`
    }
  }
  return null
}
