import { aloneKey } from '../config/batching.ts'
import type { ValueMetadata } from '../metadata.ts'
import type { ParsedFeeds } from './infer-request.ts'

/** The bucket of a request that runs as it is: by the dims of its inputs, `null` for one not given. */
export function wholeKey(dims: readonly (readonly number[] | null)[]): string {
  return `${aloneKey}${dims.map((own) => own?.join() ?? '-').join(';')}`
}

/**
 * A request that runs alone as it is.
 *
 * @param dims of each input; `null` where all but the first dimension is fixed.
 * @param firstDims the first dimension of each input.
 */
export function wholeRequest(
  inputs: readonly ValueMetadata[],
  data: ParsedFeeds['data'],
  dims: ParsedFeeds['dims'],
  firstDims: (index: number) => number,
): ParsedFeeds {
  const own = data.map((values, index): readonly number[] | null =>
    values === null ? null : (dims?.[index] ?? [firstDims(index), ...(inputs[index]!.shape.slice(1) as number[])]),
  )
  return { rows: 1, bucketKey: wholeKey(own), whole: true, data, dims: own.map((given) => given ?? []) }
}
