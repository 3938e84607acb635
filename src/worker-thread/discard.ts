import { MessageChannel } from 'node:worker_threads'
import type { Tensor } from 'onnxruntime-common'

/** Smaller ones cost more to free one by one than the collector takes for them. */
const discardedFromBytes = 65_536

const { port1: nowhere, port2: end } = new MessageChannel()
end.close()
nowhere.unref()

/** Frees a buffer at once, rather than when it is collected; it has no bytes afterwards. */
export function free(buffer: ArrayBuffer): void {
  nowhere.postMessage(null, [buffer])
}

/**
 * Frees the memory of a result that nobody will read. ONNX Runtime's binding copies each output although it was written
 * to the place prepared for it; left to the collector, those copies pile up to tens of megabytes, and every one is
 * fresh memory that the kernel has to clear (measured: 8 times the cost of copying into memory freed at once). What is
 * moved to a port without another end is freed at once, on every Node; `ArrayBuffer.transfer` is not in Node 20.
 */
export function discard(result: Tensor, prepared: Tensor): void {
  const data = result.data
  if (!ArrayBuffer.isView(data) || data.byteLength < discardedFromBytes) return
  const buffer = data.buffer as ArrayBuffer
  // A binding that gives back what it was given has made no copy; its memory is the slot.
  if (buffer !== (prepared.data as Uint8Array).buffer) free(buffer)
}
