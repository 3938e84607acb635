import type { ModelInstance } from '../instance/model-instance.ts'

/** Offers a model's queue to its instances: first each idle one a batch to start, then all of them what may wait behind. */
export function offerToAll(instances: readonly ModelInstance[]): void {
  if (instances.length === 1) return instances[0]!.worker.offer(instances[0]!)
  for (const instance of instances) {
    if (instance.worker.outstanding > 0) continue
    instance.worker.offerIdle(instance)
    if (instance.worker.outstanding === 0) break // the next idle one would be given nothing either
  }
  for (const instance of instances) if (instance.worker.outstanding > 0) instance.worker.offer(instance)
}
