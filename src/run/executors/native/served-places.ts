import { libraryCarrier } from '../../../tensor/carriers.ts'
import { servable, type RawValueMetadata } from '../../../tensor/metadata.ts'

/** Places of the outputs that are served, among all. */
export function servedPlaces(
  inputs: readonly RawValueMetadata[],
  outputs: readonly RawValueMetadata[],
): number[] {
  try {
    const served = new Set(servable('', { inputs, outputs }, libraryCarrier).outputs.map(({ name }) => name))
    return [...outputs.keys()].filter((place) => served.has(outputs[place]!.name))
  } catch {
    return [] // the engine finds the same and closes it
  }
}
