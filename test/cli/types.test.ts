import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tensor } from '../models/builder.ts'
import { castTo, identity, identityUnbatched, optionalAsIs } from '../models/small.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
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
