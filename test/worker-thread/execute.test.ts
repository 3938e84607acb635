import { Tensor } from 'onnxruntime-common'
import { describe, expect, it } from 'vitest'
import type { TensorMetadata } from '../../src/tensor/metadata.ts'
import type { TensorPlace } from '../../src/run/executors/executor.ts'
import { execute, WorkerSlot } from '../../src/run/worker-thread/execute.ts'
import type { NamedTensors, Session } from '../../src/run/worker-thread/onnxruntime.ts'

const stale = 7

/** A slot full of other people's bytes, and a run whose results are given. */
function bench(
  outputs: (Partial<TensorMetadata> & { place?: TensorPlace | null | undefined })[],
  byteLength = 64,
) {
  const buffer = new SharedArrayBuffer(byteLength)
  new Uint8Array(buffer).fill(stale)
  const slot = new WorkerSlot(1, buffer, false, Tensor)
  const metadata = outputs.map(
    (output, index) => ({ name: `y${index}`, type: 'float32', shape: [], ...output }) as TensorMetadata,
  )
  slot.prepare(0, { inputs: [], outputs: outputs.map(({ place }) => place) }, [], metadata)
  const run = (results: NamedTensors) => {
    const session: Session = { inputs: [], outputs: [], run: () => results, release: () => {} }
    return execute(session, slot, slot.layouts[0]!, {})
  }
  return { buffer, bytes: new Uint8Array(buffer), fetches: slot.layouts[0]!.fetches, run }
}

const floats = (...values: number[]) => new Tensor('float32', Float32Array.from(values), [values.length])
const pair: TensorPlace = { offset: 0, dims: [2] }
const next: TensorPlace = { offset: 16, dims: [2] }

describe('the results of a run', () => {
  it('are copied to their places, and nowhere else', async () => {
    const { buffer, bytes, run } = bench([{ place: pair }, { place: next }])
    expect(await run({ y0: floats(1, 2), y1: floats(3, 4) })).toBeNull()
    expect([...new Float32Array(buffer, 0, 2), ...new Float32Array(buffer, 16, 2)]).toEqual([1, 2, 3, 4])
    expect(bytes.subarray(8, 16).every((byte) => byte === stale)).toBe(true)
  })

  it('are sent by message where their size was not known, and only those', async () => {
    const { bytes, run } = bench([{ place: pair }, { place: null }, { place: undefined }])
    const sent = await run({ y0: floats(1, 2), y1: floats(3, 4, 5), y2: floats(6) })
    expect(sent!.outputs).toEqual([
      null,
      { type: 'float32', dims: [3], data: Float32Array.of(3, 4, 5).buffer },
      undefined,
    ])
    expect(sent!.transfer).toEqual([sent!.outputs[1]!.data as ArrayBuffer])
    expect(new Float32Array(bytes.buffer, 0, 2)).toEqual(Float32Array.of(1, 2))
  })

  it.each([
    ['longer', floats(1, 2, 3)],
    ['shorter', floats(1)],
    ['without elements', floats()],
    ['of another rank', new Tensor('float32', Float32Array.of(1, 2), [1, 2])],
    ['transposed', new Tensor('float32', Float32Array.of(1, 2), [2, 1])],
  ])('are sent by message where they are %s than laid out', async (_, result) => {
    const { bytes, run } = bench([{ place: pair }, { place: next }])
    const sent = await run({ y0: result, y1: floats(8, 9) })
    expect(sent!.outputs).toMatchObject([{ dims: result.dims }, null])
    expect(bytes.subarray(0, 16).every((byte) => byte === stale)).toBe(true)
    expect([...new Float32Array(bytes.buffer, 16, 2)]).toEqual([8, 9])
  })

  it('are kept apart where they share memory', async () => {
    const { run } = bench([{ place: null }, { place: null }, { place: null }])
    const all = Float32Array.of(1, 2, 3, 4)
    const view = (from: number, to: number) => new Tensor('float32', all.subarray(from, to), [to - from])
    const { outputs, transfer } = (await run({ y0: view(0, 4), y1: view(0, 4), y2: view(1, 3) }))!
    expect(outputs.map((output) => [...new Float32Array(output!.data as ArrayBuffer)])).toEqual([
      [1, 2, 3, 4],
      [1, 2, 3, 4],
      [2, 3],
    ])
    expect(new Set(transfer).size).toBe(3)
  })

  it('may have no element', async () => {
    const { run } = bench([{ place: { offset: 64, dims: [0, 4] } }, { place: null }])
    const none = new Tensor('float32', new Float32Array(0), [0, 4])
    expect((await run({ y0: none, y1: none }))!.outputs).toMatchObject([null, { dims: [0, 4] }])
  })

  it('may be half-precision words in an array of numbers, as newer Node has them', async () => {
    const { bytes, run } = bench([{ type: 'float16', place: pair }])
    const words = Uint16Array.of(0x3c00, 0xc000)
    const result = { type: 'float16', dims: [2], data: new DataView(words.buffer) } as unknown as Tensor // not to be read as numbers
    expect(await run({ y0: result })).toBeNull()
    expect(new Uint16Array(bytes.buffer, 0, 2)).toEqual(words)
  })
})

describe('an output that the run did not give is an error, and not what was there before', () => {
  it.each(['y0', 'toString', '__proto__', 'constructor', ''])("as with one named '%s'", async (name) => {
    for (const place of [pair, null]) {
      const { run } = bench([{ name, place }])
      await expect(run({ other: floats(1, 2) })).rejects.toThrow(
        `gave nothing for output '${name}', which the model declares as float32`,
      )
    }
  })

  it('nor one of another type', async () => {
    const { run } = bench([{ type: 'int32', place: pair }])
    await expect(run({ y0: floats(1, 2) })).rejects.toThrow(
      "gave float32 for output 'y0', which the model declares as int32",
    )
  })
})

it('what is asked for is named by properties of its own, and nothing else', () => {
  const { fetches } = bench([
    { name: '__proto__', place: pair },
    { name: 'toString', place: null },
    { name: 'unwanted', place: undefined },
  ])
  expect(Object.keys(fetches)).toEqual(['__proto__', 'toString'])
  expect('constructor' in fetches).toBe(false)
})
