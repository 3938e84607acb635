import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { openNativeOrt } from '../../src/executor/native/native-ort.ts'
import { castTo, identity, identityUnbatched } from '../models/small.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const tsc = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url))

/** Runs a script and gives its exit code and output, whether it succeeds or not. */
async function run(script: string, line: string[], env = process.env): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    return { code: 0, ...(await promisify(execFile)(process.execPath, [script, ...line], { env })) }
  } catch (error) {
    return error as { code: number; stdout: string; stderr: string }
  }
}
const zerohop = (...line: string[]) => run(join(root, 'dist/cli/main.js'), line)

describe('zerohop types', () => {
  it('prints the signature of a model', async () => {
    const { code, stdout, stderr } = await zerohop('types', identity('float32', [2]))
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/export interface IdentityFloat322 extends ModelSignature \{\n {2}inputs: \{\n {4}\/\*\* float32 \[N, 2\] \*\//)
  })
  it('warns of nothing where the addon is missing, as nothing is staged', async () => {
    const env = { ...process.env, ZEROHOP_NATIVE: 'off' }
    const { code, stderr } = await run(join(root, 'dist/cli/main.js'), ['types', identity('float32', [2])], env)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })
  it('writes a file that type-checks, and that refuses wrong names and types when compiled', async () => {
    const folder = temporaryFolder({
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
    }, join(root, '.cache/types-test'))
    const written = await Promise.all([
      zerohop('types', identity('float32', [2]), '--name', 'Numbers', '--out', join(folder, 'numbers.ts')),
      zerohop('types', identityUnbatched('string', [2]), '-n', 'Words', '-o', join(folder, 'words.ts')),
    ])
    expect(written).toEqual(Array(2).fill({ code: 0, stdout: '', stderr: '' }))
    expect(readFileSync(join(folder, 'words.ts'), 'utf8')).toContain('export interface Words extends ModelSignature')
    const options = '--ignoreConfig --noEmit --strict --target es2023 --module nodenext --types node --allowImportingTsExtensions --skipLibCheck'
    expect(await run(tsc, [...options.split(' '), join(folder, 'use.ts')])).toEqual({ code: 0, stdout: '', stderr: '' })
  })
  it.skipIf(openNativeOrt().binding === null)('knows what only the native executor carries', async () => {
    const folder = temporaryFolder({
      'use.ts': `
        import { InferenceEngine, type RawTensor } from 'zerohop'
        import type { Forest } from './forest.ts'
        import type { Bits } from './bits.ts'
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
        void [probability, data]
      `,
    }, join(root, '.cache/types-test'))
    await zerohop('types', join(root, 'test/models/sklearn/forest.onnx'), '--out', join(folder, 'forest.ts'))
    await zerohop('types', castTo('bfloat16'), '--name', 'Bits', '--out', join(folder, 'bits.ts'))
    const options = '--ignoreConfig --noEmit --strict --target es2023 --module nodenext --types node --allowImportingTsExtensions --skipLibCheck'
    expect(await run(tsc, [...options.split(' '), join(folder, 'use.ts')])).toEqual({ code: 0, stdout: '', stderr: '' })
  })
})

describe('zerohop', () => {
  it.each([
    [['types', 'missing.onnx'], /^ERR_MODEL_NOT_FOUND: Model 'missing\.onnx': expected a file at .*missing\.onnx/],
    [['types', join(root, 'package.json')], /^ERR_MODEL_LOAD: Model 'package\.json' cannot be loaded/],
    [['types', identity('float32', [2]), '--name', 'a-b'], /'a-b' is invalid.*It has to be the name of an interface/],
    [['types', identity('float32', [2]), '--out', 'no/such/folder/out.ts'], /^error: ENOENT/],
    [['types'], /missing required argument 'model'/],
    [['tipes'], /unknown command 'tipes'.*\(Did you mean types\?\)/s],
  ])('fails plainly for %j', async (line, message) => {
    const { code, stdout, stderr } = await zerohop(...line)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(message)
    expect(stderr).not.toContain('    at ')
  })
  it.each([
    ['types', identity('float32', [2])], ['types', 'missing.onnx'], ['--help'], ['--version'],
  ])('ends quietly when nobody reads what it prints: %s %s', async (...line) => {
    const child = spawn(process.execPath, [join(root, 'dist/cli/main.js'), ...line], { stdio: ['ignore', 'pipe', 'pipe'] })
    child.stdout.destroy()
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    const missing = line.includes('missing.onnx')
    expect({ code, signal }).toEqual({ code: missing ? 1 : 0, signal: null })
    expect(stderr).toMatch(missing ? /^ERR_MODEL_NOT_FOUND: / : /^$/)
  })
  it('keeps its exit code when nobody reads its errors', async () => {
    const child = spawn(process.execPath, [join(root, 'dist/cli/main.js'), 'types', 'missing.onnx'], { stdio: ['ignore', 'pipe', 'pipe'] })
    child.stderr.destroy()
    expect(await once(child, 'exit')).toEqual([1, null])
  })
  it('tells its version', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    expect((await zerohop('--version')).stdout.trim()).toBe(version)
  })
})
