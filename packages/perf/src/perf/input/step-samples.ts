import { invalidArgument } from 'zerohop/internals'
import type { Feeds, FeedValue, InferOptions, TensorData } from 'zerohop'
import type { InputShape } from './input-shapes.ts'
import type { ModelShapes } from './json-input.ts'
import { joinRows, type RowTensor } from './row-tensors.ts'
import type { Sample } from './sample.ts'
import type { Step, Stream } from './step.ts'

/** A request of some steps, a row each. */
export function sampleOf(
  steps: readonly Step[],
  { inputs, outputs }: ModelShapes,
  options?: InferOptions,
): Sample {
  const joined = (
    values: readonly InputShape[],
    of: (step: Step) => ReadonlyMap<string, RowTensor>,
  ): [string, FeedValue][] =>
    values.flatMap((value) => {
      const rows = steps.flatMap((step) => of(step).get(value.name) ?? [])
      if (rows.length === 0) return []
      if (rows.length < steps.length)
        throw invalidArgument(
          `'${value.name}'`,
          `each of the ${steps.length} entries of a request to have it, or none`,
          `${rows.length} that have it`,
        )
      return [[value.name, joinRows(value, rows)]]
    })
  const feeds: Feeds = Object.fromEntries(joined(inputs, (step) => step.inputs))
  const expected = joined(outputs, (step) => step.outputs).map(
    ([name, value]) => [name, bytesOf((value as { data: TensorData | string[] }).data)] as const,
  )
  return {
    feeds,
    rows: steps.length,
    ...(options === undefined ? {} : { options }),
    ...(expected.length === 0 ? {} : { expected: new Map(expected) }),
  }
}

/** Requests of so many rows each, one after the other out of all streams, until they would come again. */
export function samplesOf(
  streams: readonly Stream[],
  batchSize: number,
  shapes: ModelShapes,
  options?: InferOptions,
): Sample[] {
  const steps = streams.flat()
  const count = steps.length / commonDivisor(steps.length, batchSize)
  return Array.from({ length: count }, (_, index) => {
    const rows = Array.from(
      { length: batchSize },
      (__, row) => steps[(index * batchSize + row) % steps.length]!,
    )
    return sampleOf(rows, shapes, options)
  })
}

function bytesOf(data: TensorData | readonly string[]): Uint8Array | readonly string[] {
  return ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : data
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b)
}
