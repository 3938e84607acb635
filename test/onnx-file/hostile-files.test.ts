import { execFileSync } from 'node:child_process'
import fs, { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { InferenceError } from '../../src/index.ts'
import { readOnnxFile } from '../../src/onnx/read-onnx-file.ts'
import { graph } from '../models/builder.ts'
import { errorOf, temporaryFolder } from '../triton-repository/temporary.ts'
import { field, head, message, model, tensorType, value } from './wire.ts'
import { replaceBuiltIn } from '../support/built-in.ts'
import { repetitions } from '../support/full.ts'

const reads = { calls: 0, bytes: 0 }
let restore: () => void
beforeAll(() => {
  restore = replaceBuiltIn(
    fs,
    'readSync',
    (readSync) =>
      ((...args: Parameters<typeof readSync>) => {
        const bytes = readSync(...args)
        reads.calls++
        reads.bytes += bytes
        return bytes
      }) as typeof readSync,
  )
})
afterAll(() => restore())
beforeEach(() => Object.assign(reads, { calls: 0, bytes: 0 }))

const written = (bytes: Uint8Array): string => join(temporaryFolder({ 'm.onnx': bytes }), 'm.onnx')

/** A type of sequences of sequences ... */
function sequences(depth: number): Uint8Array {
  let bytes = tensorType(1, null)
  for (let level = 0; level < depth; level++) bytes = field(4, field(1, bytes))
  return bytes
}

/** Branches in branches: a graph with a node with an attribute with a graph ... */
function branches(depth: number): Uint8Array {
  let bytes = message()
  for (let level = 0; level < depth; level++) bytes = field(1, field(5, field(6, bytes)))
  return bytes
}

describe('a file that is no ONNX model', () => {
  const whole = model(field(2, 'net'), field(11, value('x', tensorType(1, ['N', 4]))))
  it.each([
    ['without a byte', message(), /it has no graph, and no other byte/],
    ['of text', Buffer.from('This is not a model.\n'), /not a readable ONNX model: field 10 at byte 0/],
    ['of JSON', Buffer.from('{ "name": "a" }'), /a group/],
    ['that Git LFS has not fetched', Buffer.from('version https://git-lfs.github.com/spec/v1\n'), /Git LFS/],
    ['of zeros', new Uint8Array(100), /byte 0 begins no field/],
    ['of ones', new Uint8Array(100).fill(0xff), /more than 10 bytes/],
    ['without a graph', message(field(1, 8), field(2, 'maker')), /it has no graph/],
    ['that is cut short', whole.subarray(0, whole.length - 10), /it is cut short/],
    ['that ends within a number', Uint8Array.of(8, 0x80), /extends past byte 2, where the file ends/],
    [
      'whose field is longer than the file',
      message(head(7, 1000)),
      /ends at byte 1003, and what it is part of at byte 3/,
    ],
    ['whose field is longer than can be', message(head(7, 2 ** 53)), /it is cut short/],
    [
      'whose field is longer than what it is part of',
      message(field(7, message(head(1, 100))), new Uint8Array(200)),
      /what it is part of at byte 4/,
    ],
    ['with a number of 11 bytes', Uint8Array.of(8, ...Array<number>(10).fill(0x80), 1), /more than 10 bytes/],
    [
      'with a number of more bytes than it needs',
      Uint8Array.of(8, 0x88, 0),
      /the number at byte 1 is not protobuf's encoding of a 64-bit number/,
    ],
    [
      'with a tag of more bytes than it needs',
      Uint8Array.of(0x88, 0, 8),
      /the number at byte 0 is not protobuf's encoding of a 64-bit number/,
    ],
    [
      'with a number of 70 bits',
      Uint8Array.of(8, ...Array<number>(9).fill(0xff), 2),
      /the number at byte 1 is not protobuf's encoding/,
    ],
    ['with field 0', Uint8Array.of(0, 1), /begins no field/],
    ['with a tag of 36 bits', Uint8Array.of(0x88, 0x80, 0x80, 0x80, 0x80, 1, 1), /begins no field/],
    ['with a group', Uint8Array.of(7 * 8 + 3, 7 * 8 + 4), /a group/],
    ['of a kind that does not exist', Uint8Array.of(7 * 8 + 6, 1), /kind 6/],
    ['whose graph is a number', message(field(7, 5)), /is a number/],
    ['whose graph is 4 bytes', Uint8Array.of(7 * 8 + 5, 0, 0, 0, 0), /is a number/],
    ['with branches 1000 deep', model(branches(1000)), /more than 100 deep/],
    ['with sequences 1000 deep', model(field(12, value('y', sequences(500)))), /max depth/],
    ['with a negative dimension', model(field(5, field(1, -1))), /has the shape \[-1\]/],
    [
      'with more elements than there can be',
      model(field(5, message(field(1, 2 ** 40), field(1, 2 ** 40)))),
      /has the shape/,
    ],
    [
      'with a shape of a million dimensions',
      model(field(5, field(1, new Uint8Array(2_000_000).fill(1)))),
      /more than 65536 bytes/,
    ],
    [
      'with a name of 2 MB',
      model(field(11, value('x'.repeat(2_000_000), tensorType(1, [])))),
      /more than 65536 bytes/,
    ],
  ])('is refused with a typed error: one %s', async (_, bytes, reason) => {
    const error = await errorOf(readOnnxFile(written(bytes)))
    expect(error).toBeInstanceOf(InferenceError)
    expect(error).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      model: 'm.onnx',
      argument: 'path',
      message: expect.stringMatching(reason),
    })
  })

  it('is refused when it asks for more than can be kept', async () => {
    const node = field(1, field(4, 'x'.repeat(60_000)))
    const error = await errorOf(readOnnxFile(written(model(...Array<Uint8Array>(300).fill(node)))))
    expect(error).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      message: expect.stringContaining('more than 16777216 bytes to be read'),
    })
  })

  it('is refused when it has more fields than can be walked through', async () => {
    const error = await errorOf(
      readOnnxFile(written(model(Buffer.alloc(21_000_000, Uint8Array.of(8 * 13, 1))))),
    )
    expect(error).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      message: expect.stringContaining('more than 10000000 fields'),
    })
  })

  it('is refused, or read, with any of its bytes changed or left out', async () => {
    const bytes = graph('net')
      .input('x', 'float32', ['N', 4])
      .output('y', 'float32', ['N', 4])
      .initializer('w', 'float32', [4, 4], new Float32Array(16))
      .node('MatMul', ['x', 'w'], ['y'], { some: [1, 2], other: 'text' })
      .build({ metadata: { a: 'b' } })
    const path = written(bytes)
    const change = fc.tuple(fc.nat(bytes.length - 1), fc.nat(255))
    await fc.assert(fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 5 }), fc.nat(bytes.length), async (changes, length) => {
      const changed = Uint8Array.from(bytes)
      for (const [at, byte] of changes) changed[at] = byte
      writeFileSync(path, changed.subarray(0, length))
      const outcome = await readOnnxFile(path).catch((error: unknown) => error)
      if (outcome instanceof Error) expect(outcome).toMatchObject({ name: 'InferenceError', code: 'ERR_MODEL_LOAD' })
      else expect(Object.keys(outcome!)).toContain('inputs')
    }), { numRuns: repetitions(500, 100) }) // prettier-ignore
  })

  it('is not waited for where it is a pipe, and is no folder', async () => {
    const folder = temporaryFolder({})
    execFileSync('mkfifo', [join(folder, 'pipe')])
    mkdirSync(join(folder, 'folder'))
    expect(await errorOf(readOnnxFile(join(folder, 'pipe')))).toMatchObject({ code: 'EINVAL' })
    expect(await errorOf(readOnnxFile(join(folder, 'folder')))).toMatchObject({ code: 'EISDIR' })
    expect(await errorOf(readOnnxFile(join(folder, 'absent')))).toMatchObject({ code: 'ENOENT' })
  })
})

describe('a file of 3 GB', () => {
  /** Tensors of 1 GB, which are holes in the file. */
  function huge(tensors: number): string {
    const gigabyte = 2 ** 30
    const front = (name: string) => message(field(1, 2 ** 28), field(2, 1), field(8, name), head(9, gigabyte))
    const parts = Array.from({ length: tensors }, (_, index) => front(`w${index}`)).map((bytes) =>
      message(head(5, bytes.length + gigabyte), bytes),
    )
    const back = message(
      field(11, value('x', tensorType(1, ['N']))),
      field(12, value('y', tensorType(1, ['N']))),
    )
    const length = parts.reduce((sum, part) => sum + part.length + gigabyte, back.length)
    const path = written(message(field(1, 8), head(7, length)))
    let at = message(field(1, 8), head(7, length)).length
    for (const part of parts) {
      writeFileSync(path, part, { flag: 'a' })
      truncateSync(path, (at += part.length + gigabyte))
    }
    writeFileSync(path, back, { flag: 'a' })
    return path
  }

  it('is read without its weights', async () => {
    const file = await readOnnxFile(huge(3))
    expect(file).toMatchObject({
      inputs: [{ name: 'x' }],
      outputs: [{ name: 'y' }],
      parameters: { tensors: 3, elements: 3 * 2 ** 28, byteLength: 3 * 2 ** 30 },
    })
    expect(file!.byteLength).toBeGreaterThan(3 * 2 ** 30)
    expect(reads.calls).toBeLessThan(20)
    expect(reads.bytes).toBeLessThan(100_000)
  })
})
