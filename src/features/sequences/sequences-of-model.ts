import type { Clock } from '../../base/clock.ts'
import type { ResolvedSequence } from '../../options/sequence-config.ts'
import type { StagingBuffer } from '../../native/staging-pool.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { FeedParser } from '../../request/feeds.ts'
import { BatchSlots, Candidates } from './places.ts'
import type { SequenceInputs } from './sequence-inputs.ts'
import type { SequenceParts, SequenceScheduler } from './sequence-parts.ts'
import { Sequences } from './sequences.ts'
import { StateMemory } from './state-memory.ts'

/** What serves the sequences of one model. */
export interface ServedModel {
  readonly metadata: ModelMetadata
  readonly parser: FeedParser
  readonly scheduler: SequenceScheduler & {
    readonly instances: { readonly size: number; onAdded: () => void }
  }
  readonly clock: Clock
  over: SequenceParts['over']
  staging(): { acquire(byteLength: number, device: null): StagingBuffer }
}

/** Begins to keep the sequences of a model, by the strategy of its configuration; `null` for one that has none. */
export function sequencesOf(
  config: ResolvedSequence | null,
  inputs: SequenceInputs | null,
  { metadata, parser, scheduler, clock, over, staging }: ServedModel,
): Sequences | null {
  if (config === null || inputs === null) return null
  const instances = () => Math.max(1, scheduler.instances.size)
  const { direct, oldest } = config
  const perInstance = oldest?.maxCandidateSequences ?? Infinity
  const places =
    direct === undefined
      ? new Candidates(() => perInstance * instances())
      : new BatchSlots(Math.max(1, metadata.maxBatchSize), instances)
  const sequences = new Sequences({
    metadata,
    config,
    inputs,
    parser,
    scheduler,
    places,
    memory: new StateMemory((byteLength) => staging().acquire(byteLength, null)),
    clock,
    over,
  })
  scheduler.instances.onAdded = () => sequences.fill() // there are more places
  return sequences
}
