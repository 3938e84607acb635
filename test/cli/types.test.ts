import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ModelMetadata, ValueMetadata } from 'zerohop'
import { signatureName, signatureSource } from '../../src/cli/types.ts'
import { tensor } from '../models/builder.ts'
import { initializedInput } from '../models/initialized-inputs.ts'
import { castTo, identity, identityUnbatched, optionalAsIs, sequenceInput } from '../models/small.ts'
import { field, message, model, tensorType, value } from '../onnx-file/wire.ts'
import { hasShared, missingShared, sharedPath } from '../support/shared.ts'
import { type Files, temporaryFolder } from '../triton-repository/temporary.ts'
import { compile, root, zerohop, zerohopWithoutAddon } from './run.ts'

describe('zerohop types', () => {
  it('prints the signature of a model', async () => {
    const { code, stdout, stderr } = await zerohop('types', identity('float32', [2]))
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /export interface IdentityFloat322 extends ModelSignature \{\n {2}inputs: \{\n {4}\/\*\* float32 \[N, 2\] \*\//,
    )
  })
  it('has bytes for the inputs that are loaded as images, and says which those can be', async () => {
    const model = identity('float32', [3, 30, 40])
    const { code, stdout, stderr } = await zerohop('types', model, '--image', 'x')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain("x: TypedTensor<'float32'> | Float32Array | Uint8Array\n")
    expect(await zerohop('types', model, '-i', 'y')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining("expected an input of images ('x'), received 'y'"),
    })
    expect(await zerohop('types', identity('float32', [2]), '-i', 'x')).toMatchObject({
      stderr: expect.stringContaining('(the model has none)'),
    })
    expect(await zerohop('types', temporaryFolder({}), '-i', 'x')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is for one model'),
    })
  })
  it('does not write over the model, by whatever path that is named', async () => {
    const folder = temporaryFolder({ 'm.onnx': readFileSync(identity('float32', [2])) })
    symlinkSync('m.onnx', join(folder, 'link.ts'))
    for (const out of ['m.onnx', 'link.ts']) {
      const { code, stderr } = await zerohop('types', join(folder, 'm.onnx'), '--out', join(folder, out))
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: "error: option '-o, --out <file>' is the model itself: name another file\n",
      })
    }
    expect(readFileSync(join(folder, 'm.onnx'))).toEqual(readFileSync(identity('float32', [2])))
  })
  it('warns of nothing where the addon is missing, as nothing is staged', async () => {
    const { code, stderr } = await zerohopWithoutAddon('types', identity('float32', [2]))
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })
  it('writes a file that type-checks, and that refuses wrong names and types when compiled', async () => {
    const folder = temporaryFolder(
      {
        'use.ts': `
        import { InferenceEngine, Tensor } from 'zerohop'
        import { decodeImage } from 'zerohop/image'
        import type { Words } from './words.ts'
        import type { Numbers } from './numbers.ts'
        const engine = new InferenceEngine()
        const numbers = await engine.load<Numbers>('numbers', { path: 'n.onnx' })
        const data: Float32Array = (await numbers.infer({ x: Float32Array.of(1, 2) })).y.data
        await numbers.infer({ x: new Tensor('float32', data, [1, 2]) }, { outputs: ['y'] })
        await numbers.infer({ x: await decodeImage('a.png', { width: 2, height: 1, channels: 'gray' }) })
        // @ts-expect-error an image of another type
        await numbers.infer({ x: await decodeImage('a.png', { width: 2, height: 1, channels: 'gray', dtype: 'uint8' }) })
        const words = await engine.load<Words>('words', { path: 'w.onnx' })
        const text: string[] = (await words.infer({ x: ['a', 'b'] })).y.data
        await words.infer({ x: new Tensor('string', text, [2]) })
        // @ts-expect-error a misspelt input
        await numbers.infer({ X: Float32Array.of(1, 2) })
        // @ts-expect-error a missing input
        await numbers.infer({})
        // @ts-expect-error one input too many
        await numbers.infer({ x: Float32Array.of(1, 2), z: Float32Array.of(1) })
        // @ts-expect-error an input of another type
        await numbers.infer({ x: Int32Array.of(1, 2) })
        // @ts-expect-error a tensor of another type
        await numbers.infer({ x: new Tensor('int32', Int32Array.of(1, 2), [1, 2]) })
        // @ts-expect-error a misspelt output
        await numbers.infer({ x: Float32Array.of(1, 2) }, { outputs: ['Y'] })
        // @ts-expect-error no such output
        void (await words.infer({ x: ['a', 'b'] })).z
      `,
      },
      join(root, '.cache/types-test'),
    )
    const written = await Promise.all([
      zerohop('types', identity('float32', [2]), '--name', 'Numbers', '--out', join(folder, 'numbers.ts')),
      zerohop('types', identityUnbatched('string', [2]), '-n', 'Words', '-o', join(folder, 'words.ts')),
    ])
    expect(written).toEqual(Array(2).fill({ code: 0, stdout: '', stderr: '' }))
    expect(readFileSync(join(folder, 'words.ts'), 'utf8')).toContain(
      'export interface Words extends ModelSignature',
    )
    expect(await compile(join(folder, 'use.ts'))).toEqual({ code: 0, stdout: '', stderr: '' })
  })
  it('knows what only the native executor carries, also where that cannot be had', async () => {
    const folder = temporaryFolder(
      {
        'use.ts': `
        import { InferenceEngine, type RawTensor } from 'zerohop'
        import type { Forest } from './forest.ts'
        import type { TypedTensor } from 'onnxruntime-node'
        import type { Bits } from './bits.ts'
        import type { Perhaps } from './perhaps.ts'
        const engine = new InferenceEngine({ executor: 'native' })
        const forest = await engine.load<Forest>('forest', { path: 'f.onnx' })
        const { output_label, output_probability } = await forest.infer({ X: Float32Array.of(1, 2, 3, 4) })
        const probability: number | undefined = output_probability[0]?.get(output_label.data[0]!)
        // @ts-expect-error keys are bigint
        output_probability[0]?.get(0)
        const bits = await engine.load<Bits>('bits', { path: 'b.onnx' })
        const { y } = await bits.infer({ x: Float32Array.of(1, 2, 3, 4) })
        const raw: RawTensor<'bfloat16'> = y
        const data: Uint16Array = raw.data
        const perhaps = await engine.load<Perhaps>('perhaps', { path: 'p.onnx' })
        const { o } = await perhaps.infer({})
        const answer: TypedTensor<'float32'> | null = (await perhaps.infer({ i: o })).o
        // @ts-expect-error a tensor of another type
        await perhaps.infer({ i: output_label })
        void [probability, data, answer]
      `,
      },
      join(root, '.cache/types-test'),
    )
    await zerohopWithoutAddon(
      'types',
      join(root, 'test/models/sklearn/forest.onnx'),
      '--out',
      join(folder, 'forest.ts'),
    )
    await zerohopWithoutAddon('types', castTo('bfloat16'), '--name', 'Bits', '--out', join(folder, 'bits.ts'))
    await zerohopWithoutAddon(
      'types',
      optionalAsIs('vector', tensor('float32', ['N'])),
      '--name',
      'Perhaps',
      '--out',
      join(folder, 'perhaps.ts'),
    )
    expect(await compile(join(folder, 'use.ts'))).toEqual({ code: 0, stdout: '', stderr: '' })
  })
})

/** A repository beside which TypeScript finds this package. */
const repository = (files: Files): string => temporaryFolder(files, join(root, '.cache/types-test'))

const bytesOf = (path: string): Uint8Array => readFileSync(path)
const good = { code: 0, stdout: '', stderr: '' }

describe('zerohop types of a repository', () => {
  it('has an initializer that is an input as well where the configuration calls it optional', async () => {
    const config =
      'max_batch_size: 0 input [{ name: "x" data_type: TYPE_FP32 dims: [4] }, { name: "w" data_type: TYPE_FP32 dims: [4] optional: true }]'
    const bytes = bytesOf(initializedInput({ batched: false }))
    const folder = repository({
      'models/named/1/model.onnx': bytes,
      'models/named/config.pbtxt': config,
      'models/plain/1/model.onnx': bytes,
    })
    expect(await zerohop('types', join(folder, 'models'), '-o', join(folder, 'models.d.ts'))).toEqual(good)
    const [named, plain] = readFileSync(join(folder, 'models.d.ts'), 'utf8').split('export interface Plain')
    expect(named).toContain("w?: TypedTensor<'float32'> | Float32Array")
    expect(plain).not.toContain('w?:')
  })

  it('writes all signatures in one module, with a map of their names', async () => {
    const folder = repository({
      'models/numbers/1/model.onnx': bytesOf(identity('float32', [2])),
      'models/numbers/config.pbtxt': 'max_batch_size: 8',
      'models/word-list/1/model.onnx': bytesOf(identity('float32', [2])),
      'models/word-list/3/model.onnx': bytesOf(identity('string', [1])),
      'models/word_list/1/model.onnx': bytesOf(sequenceInput()),
      'models/word_list/config.pbtxt': 'max_batch_size: 0',
    })
    expect(await zerohop('types', join(folder, 'models'), '-o', join(folder, 'models.d.ts'))).toEqual(good)
    expect(readFileSync(join(folder, 'models.d.ts'), 'utf8'))
      .toBe(`// Written by \`zerohop types\`; write it anew when a model changes.
import type { TypedTensor } from 'onnxruntime-node'
import type { ModelSignature } from 'zerohop'

/** Inputs and outputs of \`numbers/1/model.onnx\`; requests share runs. */
export interface Numbers extends ModelSignature {
  inputs: {
    /** float32 [N, 2] */
    x: TypedTensor<'float32'> | Float32Array
  }
  outputs: {
    /** float32 [N, 2] */
    y: TypedTensor<'float32'>
  }
}

/** Inputs and outputs of \`word-list/3/model.onnx\`; requests share runs where its rows are independent. */
export interface WordList extends ModelSignature {
  inputs: {
    /** string [N, 1] */
    x: TypedTensor<'string'> | string | readonly string[]
  }
  outputs: {
    /** string [N, 1] */
    y: TypedTensor<'string'>
  }
}

/** Inputs and outputs of \`word_list/1/model.onnx\`; each request is its own run; served with \`executor: 'native'\`. */
export interface WordList_2 extends ModelSignature {
  inputs: {
    /** seq(float32) */
    s: TypedTensor<'float32'>[]
  }
  outputs: {
    /** float32 [N, 4] */
    y: TypedTensor<'float32'>
  }
}

/** By the names of the models: \`engine.model<Models['name']>('name')\`. */
export interface Models {
  'numbers': Numbers
  'word-list': WordList
  'word_list': WordList_2
}
`)
  })

  it('lets an input that decodes images be given one', async () => {
    const folder = repository({
      'models/photo/1/model.onnx': bytesOf(identity('float32', [3, 4, 5])),
      'models/photo/config.json': JSON.stringify({ inputs: [{ name: 'x', image: {} }] }),
    })
    const { code, stdout } = await zerohop('types', join(folder, 'models'))
    expect(code).toBe(0)
    expect(stdout).toContain("    x: TypedTensor<'float32'> | Float32Array | Uint8Array\n")
  })

  it('writes the signature of an ensemble from what its configuration says', async () => {
    const folder = repository({
      'models/numbers/1/model.onnx': bytesOf(identity('float32', [2])),
      'models/twice/1/.keep': '',
      'models/twice/config.pbtxt': `platform: "ensemble" max_batch_size: 8
        input { name: "IN" data_type: TYPE_FP32 dims: [2] } input { name: "MORE" data_type: TYPE_STRING dims: [-1] optional: true } output { name: "OUT" data_type: TYPE_FP32 dims: [2] }
        ensemble_scheduling { step { model_name: "numbers" input_map { key: "x" value: "IN" } output_map { key: "y" value: "OUT" } } }`,
    })
    const { code, stdout } = await zerohop('types', join(folder, 'models'))
    expect(code).toBe(0)
    expect(stdout).toContain(`/** Inputs and outputs of \`twice/config.pbtxt\`; requests share runs. */
export interface Twice extends ModelSignature {
  inputs: {
    /** float32 [?, 2] */
    IN: TypedTensor<'float32'> | Float32Array
    /** string [?, ?] */
    MORE?: TypedTensor<'string'>
  }
  outputs: {
    /** float32 [?, 2] */
    OUT?: TypedTensor<'float32'>
  }
}
`)
    expect(stdout).toContain("  'twice': Twice\n")
  })

  const uses: [name: string, code: string, error: RegExp | null][] = [
    ['right use', 'await numbers.infer({ x: Float32Array.of(1, 2) })', null],
    ['a misspelt input', 'await numbers.infer({ X: Float32Array.of(1, 2) })', /'X' does not exist/],
    [
      'a missing input',
      'await both.infer({ a: new Tensor("int32", Int32Array.of(1), [1, 1]) })',
      /Property 'b' is missing/,
    ],
    [
      'a tensor of another type',
      'await numbers.infer({ x: new Tensor("int32", Int32Array.of(1, 2), [1, 2]) })',
      /not assignable/,
    ],
    ['data of another type', 'await numbers.infer({ x: Int32Array.of(1, 2) })', /not assignable/],
    [
      'a misspelt model',
      "engine.model<Models['number']>('number')",
      /'number' does not exist|Property 'number'/,
    ],
    [
      'an output that is not there',
      'void (await numbers.infer({ x: Float32Array.of(1, 2) })).z',
      /Property 'z' does not exist/,
    ],
    [
      'an output taken for another type',
      'const data: Int32Array = (await numbers.infer({ x: Float32Array.of(1, 2) })).y.data',
      /not assignable/,
    ],
  ]
  it('makes wrong use an error of the compiler', async () => {
    const folder = repository({
      'models/numbers/1/model.onnx': bytesOf(identity('float32', [2])),
      'models/both/1/model.onnx': model(
        field(1, message(field(1, 'a'), field(1, 'b'), field(2, 'y'), field(4, 'Add'))), field(2, 'both'),
        field(11, value('a', tensorType(6, ['', '']))), field(11, value('b', tensorType(6, ['', '']))), field(12, value('y', tensorType(6, ['', '']))),
      ),
    }) // prettier-ignore
    expect(
      await zerohopWithoutAddon('types', join(folder, 'models'), '--out', join(folder, 'models.d.ts')),
    ).toEqual(good)
    for (const [index, [, code]] of uses.entries()) {
      writeFileSync(
        join(folder, `use-${index}.ts`),
        `
        import { InferenceEngine, Tensor } from 'zerohop'
        import type { Models } from './models.d.ts'
        const engine = new InferenceEngine()
        const numbers = engine.model<Models['numbers']>('numbers')
        const both = engine.model<Models['both']>('both')
        export const used = [engine, numbers, both, Tensor]
        ${code}
        export {}
      `,
      )
    }
    writeFileSync(join(folder, 'all.ts'), uses.map((_, index) => `import './use-${index}.ts'\n`).join(''))
    const errors = (await compile(join(folder, 'all.ts'))).stdout.split(/\n(?=\S)/)
    for (const [index, [name, , error]] of uses.entries()) {
      const said = errors.filter((text) => text.includes(`use-${index}.ts`))
      expect(said.join('\n'), name).toMatch(error ?? /^$/)
    }
  })

  it('has tensors as the configuration shows them to requests', async () => {
    const open = model(
      field(1, message(field(1, 'x'), field(2, 'y'), field(4, 'Identity'))), field(2, 'net'),
      field(11, value('x', tensorType(1, ['', '', 4]))), field(12, value('y', tensorType(1, ['', 'L', 4]))),
    ) // prettier-ignore
    const tensor = (name: string, dims: string) => `{ name: "${name}" data_type: TYPE_FP32 dims: ${dims} }`
    const folder = repository({
      'models/batched/1/model.onnx': open,
      'models/batched/config.pbtxt': `max_batch_size: 4 input ${tensor('x', '[ 3, 4 ]')} output ${tensor('y', '[ -1, 4 ]')}`,
      'models/single/1/model.onnx': open,
      'models/single/config.pbtxt': `max_batch_size: 0 input ${tensor('x', '[ 2, -1, 4 ]')} output ${tensor('y', '[ -1, -1, 4 ]')}`,
      'models/reshaped/1/model.onnx': open,
      'models/reshaped/config.pbtxt': `max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 12 reshape { shape: [ 3, 4 ] } }`,
      'models/wrong/1/model.onnx': open,
      'models/wrong/config.pbtxt': `max_batch_size: 4 input ${tensor('x', '[ 3, 5 ]')}`,
    })
    const { code, stdout, stderr } = await zerohop('types', join(folder, 'models'))
    expect([...stdout.matchAll(/float32 \[.*\] \*\/\s+\w: .*/g)].map(([text]) => text.replace(/ \*\/\s+/, ' '))).toEqual([
      "float32 [?, 3, 4] x: TypedTensor<'float32'> | Float32Array", "float32 [?, L, 4] y: TypedTensor<'float32'>",
      "float32 [?, 12] x: TypedTensor<'float32'> | Float32Array", "float32 [?, L, 4] y: TypedTensor<'float32'>",
      "float32 [2, ?, 4] x: TypedTensor<'float32'>", "float32 [?, L, 4] y: TypedTensor<'float32'>",
    ]) // prettier-ignore
    expect(code).toBe(1)
    expect(stderr).toMatch(/^ERR_MODEL_CONFIG: .*'wrong'.*config\.pbtxt:\d+:\d+\n/)
  })

  it('lets a request of a sequence leave out what the sequence fills', async () => {
    const folder = repository({
      'models/sum/1/model.onnx': model(
        field(1, message(field(1, 'x'), field(1, 'start'), field(2, 'y'), field(4, 'Add'))), field(2, 'sum'),
        ...['x', 'start'].map((name) => field(11, value(name, tensorType(6, ['', 1])))), field(12, value('y', tensorType(6, ['', 1]))),
      ),
      'models/sum/config.pbtxt': `max_batch_size: 8 sequence_batching { control_input [{ name: "start" control [{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }] }] }
        input { name: "x" data_type: TYPE_INT32 dims: 1 }`,
      'use.ts': `
        import { InferenceEngine } from 'zerohop'
        import type { Models } from './models.d.ts'
        const sum = new InferenceEngine().model<Models['sum']>('sum')
        await sum.infer({ x: Int32Array.of(1) }, { sequenceId: 1 })
        await sum.infer({ x: Int32Array.of(1), start: Int32Array.of(1) })
        // @ts-expect-error a missing input
        await sum.infer({ start: Int32Array.of(1) })
      `,
    }) // prettier-ignore
    expect(await zerohop('types', join(folder, 'models'), '--out', join(folder, 'models.d.ts'))).toEqual(good)
    expect(await compile(join(folder, 'use.ts'))).toEqual(good)
  })

  it('mentions models for other backends, and writes the rest', async () => {
    const folder = repository({
      'models/good/1/model.onnx': bytesOf(identity('float32', [2])),
      'models/torch/config.pbtxt': 'backend: "pytorch"',
    })
    const { code, stdout, stderr } = await zerohop('types', join(folder, 'models'))
    expect(code).toBe(0)
    expect(stdout).toContain("'good': Good\n}\n")
    expect(stderr).toMatch(/^skipped 'torch', which is for another backend: [^\n]*\n$/)
  })

  it('leaves out what cannot be read, and says so', async () => {
    const folder = repository({
      'models/good/1/model.onnx': bytesOf(castTo('int4')),
      'models/broken/1/model.onnx': 'no model',
      'models/empty/config.pbtxt': '',
    })
    const { code, stdout, stderr } = await zerohop('types', join(folder, 'models'))
    expect(code).toBe(1)
    expect(stdout).toContain("export interface Models {\n  'good': Good\n}\n")
    expect(stderr.trim().split('\n')).toEqual([
      expect.stringMatching(/^ERR_MODEL_NOT_FOUND: .*'empty'/), expect.stringMatching(/^ERR_MODEL_LOAD: Model 'model\.onnx' cannot be loaded from .*broken/),
      expect.stringMatching(new RegExp(`^ERR_MODEL_LOAD: .*${basename(folder)}.*: skipped 'empty', '.*'$`)),
    ]) // prettier-ignore
    const nothing = repository({ 'models/note.txt': '' }) // no folder
    expect(await zerohop('types', join(nothing, 'models'))).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('it has no models'),
    })
  })

  it.skipIf(!hasShared)(`knows Triton's examples${missingShared}`, async () => {
    const { stdout } = await zerohop('types', sharedPath('models/triton-repository'))
    expect(stdout).toContain("    INPUT0: TypedTensor<'int8'> | Int8Array\n")
    for (const name of ['simple', 'simple_int8', 'simple_string', 'simple_sequence', 'simple_dyna_sequence'])
      expect(stdout).toContain(`  '${name}': Simple`)
  })
})

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
