import type { ModelMetadata } from '../tensor/metadata.ts'
import { cutRows, isRectangular } from '../tensor/values.ts'
import type { FinishedBatch } from './finished-batch.ts'

/**
 * Why requests of a finished batch have no answer, by their place: a row of theirs has failed, or has other dims in an output than
 * the next one, with which it cannot be one tensor. `null` where all have one.
 */
export function failedRequests(
  { outputs }: ModelMetadata,
  { requests, failures, mailed }: FinishedBatch,
): (string | null)[] | null {
  const ragged =
    mailed?.flatMap((value, index) =>
      value && 'ragged' in value ? [{ value, name: outputs[index]!.name }] : [],
    ) ?? []
  if (failures === null && ragged.length === 0) return null
  let start = 0
  return requests.map(({ rows }) => {
    const end = start + rows
    const own = failures?.find(([row]) => row >= start && row < end)
    const uneven = ragged.find(
      ({ value }) => rows > 1 && !isRectangular(cutRows(value, start, end) as typeof value),
    )
    start = end
    if (own !== undefined) return own[1]
    return uneven === undefined
      ? null
      : `output '${uneven.name}' has rows of different dims, which cannot be one tensor; send each row as a request of its own`
  })
}
