import { describe, expect, it } from 'vitest'
import { loadBinding } from '../../src/native/addon.ts'

const { binding } = loadBinding()

describe.skipIf(binding === null)('kernels of the addon', () => {
  const kernels = binding!
  const bytes = (count: number) => new Uint8Array(count)
  const table = Float32Array.from({ length: 768 }, (_, at) => at)

  it('say what they are done with', () => {
    expect(['avx2', 'neon', 'none']).toContain(kernels.vectorInstructions)
  })

  it('write planes by the table, whatever the factors say', () => {
    const planes = new Float32Array(3 * 300)
    const rgb = Uint8Array.from({ length: 900 }, (_, at) => at % 256)
    kernels.writePlanes(rgb, planes, table, new Float64Array(6), false)
    expect([...planes]).toEqual(
      Array.from(
        { length: 900 },
        (_, at) => 256 * Math.floor(at / 300) + rgb[3 * (at % 300) + Math.floor(at / 300)]!,
      ),
    )
  })

  it('refuse what does not fit, and touch nothing then', () => {
    const planes = new Float32Array(6)
    const factors = new Float64Array(6)
    const refused: [() => void, string][] = [
      [() => kernels.writePlanes(bytes(5), planes, table, factors, false), 'rgb'],
      [() => kernels.writePlanes(bytes(3), planes, table, factors, false), 'planes'],
      [() => kernels.writePlanes(bytes(6), new Float64Array(6), table, factors, false), 'planes'],
      [() => kernels.writePlanes(bytes(6), planes, table.subarray(1), factors, false), 'table'],
      [() => kernels.writePlanes(bytes(6), planes, new Uint16Array(768), factors, false), 'table'],
      [() => kernels.writePlanes(bytes(6), planes, table, factors.subarray(1), false), 'factors'],
      [() => kernels.writePlanes([1, 2, 3] as never, planes, table, factors, false), 'rgb'],
      [() => kernels.copyRows(bytes(8), 0, 4, bytes(8), 0, 4, 4, 3), 'source'],
      [() => kernels.copyRows(bytes(12), 0, 4, bytes(8), 0, 4, 4, 3), 'target'],
      [() => kernels.copyRows(bytes(8), 5, 4, bytes(8), 0, 4, 4, 1), 'source'],
      [() => kernels.copyRows(bytes(8), -1, 4, bytes(8), 0, 4, 4, 1), 'sourceOffset'],
      [() => kernels.copyRows(bytes(8), 0, 2 ** 40, bytes(8), 0, 4, 4, 2 ** 40), 'source'],
      [() => kernels.fillRows(bytes(8), 4, 4, 8, 1, bytes(1)), 'target'],
      [() => kernels.fillRows(bytes(8), 0, 4, 3, 1, new Uint16Array(1)), 'element'],
      [() => kernels.fillRows(bytes(8), 0, 4, 4, 1, bytes(2)), 'element'],
    ]
    for (const [call, what] of refused) expect(call).toThrow(what)
    expect([...planes]).toEqual([0, 0, 0, 0, 0, 0])
  })

  it('work on no memory that is gone', () => {
    const gone = new Uint8Array(16)
    structuredClone(gone.buffer, { transfer: [gone.buffer] })
    expect(() => kernels.copyRows(gone, 0, 4, bytes(16), 0, 4, 4, 1)).toThrow('source')
    expect(() => kernels.fillRows(gone, 0, 4, 4, 1, bytes(1))).toThrow('target')
  })

  it('lend bytes of memory that stays while somebody has them, and can be taken back', () => {
    const lease = kernels.acquire(4096, -1)!
    const lent = kernels.lend(lease.id, 1024, 16)
    new Uint8Array(lease.bytes, 1024, 16).fill(5)
    const view = new Uint8Array(lent)
    expect([...view]).toEqual(Array.from({ length: 16 }, () => 5))
    kernels.release(lease.bytes)
    expect(view[0]).toBe(5) // by its own hold
    kernels.release(lent)
    kernels.release(lent)
    expect(view.length).toBe(0)
    expect(() => kernels.lend(lease.id, 0, 1)).toThrow('is not held')
    const other = kernels.acquire(4096, -1)!
    expect(() => kernels.lend(other.id, 4090, 16)).toThrow(RangeError)
    kernels.release(other.bytes)
  })
})
