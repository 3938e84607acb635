import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { initializedInput } from '../models/initialized-inputs.ts'
import { castTo, identity, sequenceInput } from '../models/small.ts'
import { field, message, model, tensorType, value } from '../onnx-file/wire.ts'
import { hasShared, missingShared, sharedPath } from '../support/shared.ts'
import { temporaryFolder, type Files } from '../triton-repository/temporary.ts'
import { compile, root, zerohop, zerohopWithoutAddon } from './run.ts'

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
