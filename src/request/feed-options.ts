import type { Padding } from './padding.ts'
import type { ShapedTensors } from './shaped-tensors.ts'

/** What a model's configuration says of its feeds. */
export interface FeedOptions {
  readonly optionalInputs?: readonly string[]
  readonly padding?: Padding | null
  /** Refuse NaN and infinity. */
  readonly finiteOnly?: boolean
  /** Whether strings may have NUL characters. Default `true`. */
  readonly carriesNul?: boolean
  /** Whether the user set `maxBatchSize`: what has more rows is refused then, else it runs alone. Default `true`. */
  readonly limited?: boolean
  /** Names of inputs that a sequence fills. */
  readonly bySequence?: readonly string[]
  /** Inputs as requests have them, where that is not as the model has them. */
  readonly shaped?: Pick<ShapedTensors, 'inputs' | 'shown'>
}
