import { MessageChannel } from 'node:worker_threads'
import type { Tensor } from 'onnxruntime-common'

/** From so many bytes on results are freed: smaller ones cost more one by one than the collector takes for them. */
export const discardedFromBytes = 65_536

const { port1: nowhere, port2: end } = new MessageChannel()
end.close()
nowhere.unref()

/** Frees a buffer at once, rather than when it is collected; it has no bytes afterwards. */
export function free(buffer: ArrayBuffer): void {
  nowhere.postMessage(null, [buffer])
}

/**
 * Frees the memory of an output that has been copied to its place. ONNX Runtime's binding puts each output into memory
 * of its own; left to the collector, those pieces pile up to tens of megabytes, and every one is fresh memory that the
 * kernel has to clear (measured: 8 times the cost of copying into memory freed at once). What is moved to a port
 * without another end is freed at once, on every Node; `ArrayBuffer.transfer` is not in Node 20.
 *
 * @param kept what is not to be freed: it is about to be sent.
 */
export function discard(data: Tensor['data'], kept: readonly ArrayBuffer[] = []): void {
  if (!ArrayBuffer.isView(data) || data.byteLength === 0) return // of strings, or moved before
  const buffer = data.buffer as ArrayBuffer
  if (!kept.includes(buffer)) free(buffer)
}
