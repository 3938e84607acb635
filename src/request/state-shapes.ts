import type { ResolvedSequence } from '../options/sequence-config.ts'
import type { ModelMetadata, ValueMetadata } from '../tensor/metadata.ts'

type Tensors = Pick<ModelMetadata, 'inputs' | 'outputs'>

/** What becomes the state of a sequence has the lengths of the input that takes it, where the model itself does not say. */
export function withStateShapes<T extends Tensors>(sequence: ResolvedSequence | null, served: T): T {
  if (sequence === null) return served
  const known = new Set(served.inputs.flatMap(({ shape }) => shape.filter((dim) => dim !== ''))) // without a name it is none that an input has
  const outputs = served.outputs.map((output): ValueMetadata => {
    const state = sequence.state.find((each) => each.output === output.name)
    const input = served.inputs.find(({ name }) => name === state?.input)
    if (input === undefined || input.type !== output.type || input.shape.length !== output.shape.length)
      return output
    const shape = output.shape.map((dim, axis) =>
      typeof dim === 'string' && !known.has(dim) ? input.shape[axis]! : dim,
    )
    return { ...output, shape }
  })
  return { ...served, outputs }
}
