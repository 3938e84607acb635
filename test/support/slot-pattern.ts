import { expect, vi } from 'vitest'
import { StagingSlot } from '../../src/run/staging-slot.ts'
import type { Outputs } from '../../src/index.ts'

const byte = 0xa5

/** From now on every slot is filled with a pattern before a batch is gathered into it. */
export function fillSlots(): void {
  const { gather } = StagingSlot.prototype
  vi.spyOn(StagingSlot.prototype, 'gather').mockImplementation(function (this: StagingSlot, batch, layout) {
    const views = [...layout.inputViews, ...layout.outputViews].filter(
      (view) => view !== null && view !== undefined,
    )
    for (const { buffer } of views) new Uint8Array(buffer).fill(byte)
    return gather.call(this, batch, layout)
  })
}

/** Asserts that no answer has anything of the pattern in it. */
export function expectNoPattern(outputs: Outputs): void {
  for (const [name, { data }] of Object.entries(outputs)) {
    if (!ArrayBuffer.isView(data)) continue
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
    expect(bytes.includes(Buffer.alloc(4, byte)), `the pattern in output '${name}'`).toBe(false)
  }
}
