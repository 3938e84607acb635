import { describe, expect, it } from 'vitest'
import type { ModelMetadata, ValueMetadata } from 'zerohop'
import { signatureName, signatureSource } from '../../src/cli/signature.ts'

const joining = { rows: 'declared', how: 'declared', largestDifference: null, reason: '' } as const
const metadata = (inputs: ValueMetadata[], outputs: ValueMetadata[], maxBatchSize = 32): ModelMetadata => ({
  name: 'm',
  path: 'm.onnx',
  inputs,
  outputs,
  properties: null,
  unservableOutputs: [],
  executionProviders: [],
  maxBatchSize,
  joining,
})

describe('the source of a signature', () => {
  it('has a member with type and shape for each input and output', () => {
    const source = signatureSource(
      'Net',
      'net.onnx',
      metadata(
        [
          { name: 'x', type: 'float32', shape: ['N', 3, ''] },
          { name: 'words', type: 'string', shape: [] },
        ],
        [{ name: 'y', type: 'int64', shape: ['N'] }],
      ),
    )
    expect(source).toBe(`// Written by \`zerohop types\`; write it anew when the model changes.
import type { TypedTensor } from 'onnxruntime-node'
import type { ModelSignature } from 'zerohop'

/** Inputs and outputs of \`net.onnx\`; requests share runs. */
export interface Net extends ModelSignature {
  inputs: {
    /** float32 [N, 3, ?] */
    x: TypedTensor<'float32'>
    /** string [] */
    words: TypedTensor<'string'> | string | readonly string[]
  }
  outputs: {
    /** int64 [N] */
    y: TypedTensor<'int64'>
  }
}
`)
  })
  it('has raw tensors where JavaScript has no array for the elements, and says what serves them', () => {
    const source = signatureSource(
      'Net',
      'net.onnx',
      metadata(
        [{ name: 'x', type: 'bfloat16', shape: ['N', 4] }],
        [{ name: 'y', type: 'int4', shape: ['N', 3] }],
      ),
    )
    expect(source).toContain("\nimport type { ModelSignature, RawTensor } from 'zerohop'\n")
    expect(source).not.toContain('onnxruntime-node')
    expect(source).toContain("`net.onnx`; requests share runs; served with `executor: 'native'`. */")
    expect(source).toContain("x: RawTensor<'bfloat16'> | Uint16Array\n")
    expect(source).toContain("y: RawTensor<'int4'>\n")
  })
  it.each([
    ['seq(map(int64, float32))', 'Map<bigint, number>[]'],
    ['seq(map(string, float64))', 'Record<string, number>[]'],
    ['map(string, int64)', 'Record<string, bigint>'],
    ['map(int64, string)', 'Map<bigint, string>'],
    ['seq(float32)', "TypedTensor<'float32'>[]"],
    ['seq(seq(bfloat16))', "RawTensor<'bfloat16'>[][]"],
    ['optional(int64)', "TypedTensor<'int64'> | null"],
    ['optional(seq(string))', "TypedTensor<'string'>[] | null"],
    ['seq(optional(bool))', "(TypedTensor<'bool'> | null)[]"],
  ] as const)('has %s as %s', (type, text) => {
    const source = signatureSource(
      'Net',
      'net.onnx',
      metadata([{ name: 'x', type: 'uint8', shape: ['N'] }], [{ name: 'y', type, shape: [] }]),
    )
    expect(source).toContain(`    /** ${type} */\n    y: ${text}\n`)
    expect(source).toContain("served with `executor: 'native'`")
  })
  it('lets a request leave out an input of an optional type, which an answer has in any case', () => {
    const value = { name: 'v', type: 'optional(float32)', shape: [] } as const
    const source = signatureSource('Net', 'net.onnx', metadata([value], [value], 0))
    expect([...source.matchAll(/^ {4}(v.*)$/gm)].map(([, member]) => member)).toEqual([
      "v?: TypedTensor<'float32'> | null",
      "v: TypedTensor<'float32'> | null",
    ])
  })
  it.each([
    ['one row is fixed', [['N', 4], ['M']], true],
    ['there is nothing open', [[1, 4], []], true],
    ['a row is open', [['N', 'L'], ['N']], false],
    ['there are no rows', [['N', 4], []], false],
  ] as const)('lets data without dims be given where %s: %j, %s', (_, [x, y], bare) => {
    const source = signatureSource(
      'Net',
      'net.onnx',
      metadata([{ name: 'x', type: 'float32', shape: x }], [{ name: 'y', type: 'float32', shape: y }]),
    )
    expect(source.includes("x: TypedTensor<'float32'> | Float32Array\n")).toBe(bare)
  })
  it('quotes names that are no identifiers, and closes no comment early', () => {
    const names = ['input:0', 'a/b', "it's", '1st', 'new', 'line\nbreak', 'back\\slash', 'say "hi"', '']
    const source = signatureSource(
      'Net',
      'a*/b.onnx',
      metadata(
        names.map((name) => ({ name, type: 'bool', shape: ['*/ a\n'] })),
        [{ name: 'y', type: 'bool', shape: ['N'] }],
        0,
      ),
    )
    const keys = [...source.matchAll(/^ {4}(.+): TypedTensor<'bool'> \| Uint8Array$/gm)].map(([, key]) => key)
    expect(keys).toEqual([
      "'input:0'",
      "'a/b'",
      "'it\\'s'",
      "'1st'",
      'new',
      "'line\\nbreak'",
      "'back\\\\slash'",
      '\'say "hi"\'',
      "''",
    ])
    expect(source).toContain('/** bool [*\\/ a ] */')
    expect(source).toContain('`a*\\/b.onnx`; each request is its own run. */')
  })
  it('has nothing in it that cannot be seen', () => {
    const strange = 'a\u2028\u202e\u0085\u007f\u001b*/'
    const source = signatureSource(
      'Net',
      `${strange}.onnx`,
      metadata(
        [{ name: strange, type: 'bool', shape: [strange] }],
        [{ name: 'y', type: 'bool', shape: ['N'] }],
        0,
      ),
    )
    expect(source).toContain("    'a\\u2028\\u202e\\u0085\\u007f\\u001b*/': TypedTensor<'bool'>")
    expect(source.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u2028\u202e]/u)
  })
})

describe('the name of a signature', () => {
  it.each([
    ['resnet50.onnx', 'Resnet50'],
    ['./models/resnet-50/1/model.onnx', 'Resnet50'],
    ['C:\\models\\net_v2.ort', 'NetV2'],
    ['silero_vad_16k_op15.onnx', 'SileroVad16kOp15'],
    ['model.onnx', 'Model'],
    ['../1/model.onnx', 'Model'],
    ['3d.onnx', 'Model3d'],
    ['model-signature.onnx', 'ModelModelSignature'],
    ['typed_tensor.onnx', 'ModelTypedTensor'],
    ['map.onnx', 'ModelMap'],
    ['record.onnx', 'ModelRecord'],
    ['Float32Array.onnx', 'ModelFloat32Array'],
    ['ünet.onnx', 'Net'],
    ['模型.onnx', 'Model'],
  ])('of %s is %s', (path, name) => {
    expect(signatureName(path)).toBe(name)
  })
})
