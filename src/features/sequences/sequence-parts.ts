import type { Clock } from '../../base/clock.ts'
import type { CheckedOptions } from '../../options/infer-options.ts'
import type { ResolvedSequence } from '../../options/sequence-config.ts'
import type { ModelMetadata } from '../../tensor/metadata.ts'
import type { SequenceEvent } from '../../observe/engine-events.ts'
import type { RejectionReason } from '../../observe/rejections.ts'
import type { PriorityLevels } from '../../request/priority-levels.ts'
import type { FeedParser } from '../../request/feeds.ts'
import type { InferRequest } from '../../request/infer-request.ts'
import type { ObservedRequests } from '../../schedule/observed-requests.ts'
import type { Places } from './places.ts'
import type { SequenceInputs } from './sequence-inputs.ts'
import type { StateMemory } from './state-memory.ts'

/** What requests go to. */
export interface SequenceScheduler {
  readonly levels: PriorityLevels
  readonly observed: ObservedRequests
  submit(request: InferRequest, options: CheckedOptions): void
  /** Sends a request that was submitted while it was held. */
  release(request: InferRequest): void
  cancel(request: InferRequest, why: RejectionReason, reason: unknown): void
}

/** What the sequences of a model are made of. */
export interface SequenceParts {
  readonly metadata: ModelMetadata
  readonly config: ResolvedSequence
  readonly inputs: SequenceInputs
  readonly parser: FeedParser
  readonly scheduler: SequenceScheduler
  readonly places: Places
  readonly memory: StateMemory
  readonly clock: Clock
  /** Told of each sequence when nothing is kept of it any more. */
  over(event: Pick<SequenceEvent, 'type' | 'sequenceId' | 'reason'>): void
}
