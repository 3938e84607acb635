import type { InferRequest } from '../request/infer-request.ts'

/** The requests of a batch, each in the slot of its sequence and what stands for an empty one in the others; as they are where sequences have none. */
export function inSlots(requests: readonly InferRequest[]): readonly InferRequest[] {
  const { turn } = requests[0]!
  if (turn!.slot === -1) return requests
  const last = requests.reduce((slot, request) => Math.max(slot, request.turn!.slot), 0)
  const batch: InferRequest[] = Array.from({ length: Math.max(last + 1, turn!.slots) })
  for (const request of requests) batch[request.turn!.slot] = request
  for (let slot = 0; slot < batch.length; slot++) batch[slot] ??= turn!.emptyRow()
  return batch
}
