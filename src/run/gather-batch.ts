import type { ModelMetadata } from '../tensor/metadata.ts'
import type { InferRequest } from '../request/infer-request.ts'
import type { Padding } from '../request/padding.ts'
import { isPacked, storageOf, type ElementType, type TensorData } from '../tensor/tensor.ts'
import type { MailedValue } from '../tensor/values.ts'
import { checkElements, gatherBlocks, gatherMailed, gatherPacked, gatherPadded } from './gather-rows.ts'
import type { InPlaceBatch } from './in-place.ts'
import { gatherRagged } from './ragged-rows.ts'
import type { ViewedLayout } from './viewed-layout.ts'

/** Copies the rows of `batch` to where `layout` has them; what cannot lie there is returned to go by message. */
export function gatherBatch(
  metadata: ModelMetadata,
  padding: Padding | null,
  batch: readonly InferRequest[],
  layout: ViewedLayout,
): readonly (MailedValue | null)[] | null {
  let mailed: (MailedValue | null)[] | null = null
  for (let index = 0; index < layout.inputViews.length; index++) {
    const view = layout.inputViews[index]
    if (view === undefined) continue
    if (view === null) {
      mailed ??= layout.inputViews.map(() => null)
      mailed[index] = gatherMailed(
        metadata.inputs[index]!,
        layout.inputBlocks[index] === 0 ? [batch[0]!] : batch,
        index,
        layout.inputDims[index]!,
      )
    } else if (layout.rowDims?.[index] != null) {
      gatherRagged(batch, index, view, layout.rowDims[index]!)
    } else if (layout.lengths !== null && padding!.byInput[index] !== undefined) {
      gatherPadded(batch, padding!, index, layout.inputDims[index]!, layout.lengths, view)
    } else if (layout.packs && isPacked(metadata.inputs[index]!.type as ElementType)) {
      gatherPacked(batch, index, view as Uint8Array, layout.inputRowElements[index]!)
    } else if (layout.inputBlocks[index] !== 1) {
      gatherBlocks(batch, index, view, layout.inputBlocks[index]!, layout.inputRowElements[index]!)
    } else {
      const rowElements = layout.inputRowElements[index]!
      let at = 0
      for (let member = 0; member < batch.length; member++) {
        const request = batch[member]!
        const data = request.data[index] as Float32Array
        const elements = batch.length === 1 ? view.length : request.rows * rowElements
        checkElements(data, elements)
        ;(view as Float32Array).set(data, at)
        at += elements
      }
    }
  }
  return mailed
}

/** Copies those rows of a batch to its stretch of a block that lie elsewhere. */
export function gatherMoved(metadata: ModelMetadata, { block, moved }: InPlaceBatch): void {
  for (const { request, row } of moved) {
    for (const [index, data] of request.data.entries()) {
      if (data === null) continue
      const { offset, rowBytes } = block.layout.inputs[index]!
      const Storage = storageOf(metadata.inputs[index]!.type as ElementType)
      const target = new Storage(
        block.buffer.bytes,
        offset + row * rowBytes,
        (request.rows * rowBytes) / Storage.BYTES_PER_ELEMENT,
      )
      checkElements(data as TensorData, target.length)
      ;(target as Float32Array).set(data as Float32Array)
    }
  }
}
