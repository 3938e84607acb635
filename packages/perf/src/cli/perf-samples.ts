import { invalidArgument } from 'zerohop/internals'
import { type Sample, sampleSource } from '../perf/input/sample-source.ts'
import type { PerfContext } from './perf-extension.ts'
import { inputSettings, type InputOptions } from './perf-input-options.ts'
import { isMadeUp } from '../perf/input/generated-data.ts'

/** How many samples are made up, where it is not said. */
interface SampleBudget {
  readonly fewest: number
  readonly most: number
  /** Of all of them together. */
  readonly bytes: number
}

/**
 * All samples that there are, in memory: those of the files that were given, or so many of random data, all different.
 *
 * @param option that is asked for, for which a model must not have sequences.
 * @param given how many are to be made up; else `--unique-inputs`, where that is given, and else as the budget allows.
 * @throws InferenceError `ERR_INVALID_ARG` for a model with sequences.
 */
export async function samplesInMemory(
  { opened, settings, target, options }: PerfContext,
  option: string,
  budget: SampleBudget,
  given?: number,
): Promise<{ readonly samples: Sample[]; readonly areRandom: boolean }> {
  if (opened.hasSequences) throw invalidArgument(option, 'a model without sequences', opened.model.name)
  const own = inputSettings(options as unknown as InputOptions, opened, settings.seed)
  const areRandom = own.inputData.every((data) => isMadeUp(data)) && !own.inputData.includes('zero')
  const uniqueInputs =
    given ?? (own.uniqueInputs > 1 ? own.uniqueInputs : countWithin(budget, target.source.next(0)))
  const source = areRandom
    ? await sampleSource(opened.model.metadata, { ...own, uniqueInputs })
    : target.source
  return { samples: Array.from({ length: source.size! }, () => source.next(0)), areRandom }
}

/** What is held of a string, about. */
const bytesOfString = 64

function countWithin({ fewest, most, bytes }: SampleBudget, { feeds }: Sample): number {
  const each = Object.values(feeds).reduce((sum, feed) => sum + bytesOf(Object(feed).data), 0)
  return Math.min(most, Math.max(fewest, Math.floor(bytes / Math.max(1, each))))
}

function bytesOf(data: unknown): number {
  return ArrayBuffer.isView(data) ? data.byteLength : Array.isArray(data) ? bytesOfString * data.length : 0
}
