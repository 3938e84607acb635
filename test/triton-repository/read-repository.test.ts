import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Tensor } from 'onnxruntime-common'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine } from '../../src/engine.ts'
import { ConfigFields } from '../../src/features/triton-repository/config-fields.ts'
import { readModelConfig } from '../../src/features/triton-repository/config-pbtxt.ts'
import { readRepository } from '../../src/features/triton-repository/read-repository.ts'
import type { RepositoryOptions } from '../../src/features/triton-repository/repository-options.ts'
import {
  parseTextFormat,
  position,
  type TextField,
} from '../../src/features/triton-repository/text-format.ts'
import type { ModelConfig } from '../../src/index.ts'
import { identity } from '../models/small.ts'
import { repetitions } from '../support/full.ts'
import { until } from '../support/until.ts'
import { errorOf, temporaryFolder } from './temporary.ts'

describe('a model repository', () => {
  it('is read folder by folder, in the order of names', async () => {
    const path = temporaryFolder({
      'zeta/config.pbtxt': 'max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 2 }',
      'zeta/1/model.onnx': '',
      'alpha/1/model.onnx': '',
      '.git/config': '',
      'README.md': '',
    })
    const { entries, failures } = await readRepository(path)
    expect(failures).toEqual([])
    expect(entries).toMatchObject([
      { name: 'alpha', configs: [{ path: join(path, 'alpha/1/model.onnx'), version: '1' }], notes: [] },
      {
        name: 'zeta',
        configs: [
          {
            path: join(path, 'zeta/1/model.onnx'),
            version: '1',
            maxBatchSize: 4,
            inputs: [{ name: 'x', type: 'float32', dims: [2] }],
          },
        ],
        notes: [],
      },
    ])
  })
  it('is read for the models named, and no others', async () => {
    const path = temporaryFolder({ 'a/1/model.onnx': '', 'b/config.pbtxt': '}', 'c/1/model.onnx': '' })
    const { entries, failures } = await readRepository(path, ['c', 'nope', 'c'])
    expect(entries.map(({ name }) => name)).toEqual(['c'])
    expect(failures).toMatchObject([{ code: 'ERR_MODEL_NOT_FOUND', model: 'nope', argument: 'models' }])
    expect(failures[0]!.message).toContain("'a', 'b', 'c'")
  })
  it('may be empty', async () => {
    expect(await readRepository(temporaryFolder({}))).toEqual({ entries: [], unsupported: [], failures: [] })
  })
  it('has models with external data, whose file is in a folder of the same name, and links', async () => {
    const path = temporaryFolder({ 'a/1/model.onnx/model.onnx': '', 'a/1/model.onnx/weights.bin': '' })
    symlinkSync(join(path, 'a'), join(path, 'b'))
    const { entries } = await readRepository(path)
    expect(entries.map(({ configs }) => (configs[0] as ModelConfig).path)).toEqual(
      ['a', 'b'].map((name) => join(path, name, '1/model.onnx/model.onnx')),
    )
  })
  it('rejects when it is no folder', async () => {
    const path = temporaryFolder({ file: '' })
    for (const wrong of [join(path, 'missing'), join(path, 'file')]) {
      expect(await errorOf(readRepository(wrong))).toMatchObject({
        code: 'ERR_MODEL_NOT_FOUND',
        argument: 'path',
        received: wrong,
      })
    }
  })
})

describe('the version of a model', () => {
  const versions = {
    'm/1/model.onnx': '',
    'm/3/model.onnx': '',
    'm/20/model.onnx': '',
    'm/017/model.onnx': '',
    'm/0/model.onnx': '',
    'm/99': '',
    'm/warmup/x': '',
  }
  it.each([
    ['', ['20'], []],
    ['latest { num_versions: 1 }', ['20'], []],
    ['latest { num_versions: 2 }', ['20', '3'], []],
    ['latest { num_versions: 9 }', ['20', '3', '1'], []],
    ['all {}', ['20', '3', '1'], []],
    ['specific { versions: [1, 3] }', ['3', '1'], []],
    ['specific { versions: [1, 50] }', ['1'], ['version_policy: there is no version 50']],
  ])('under the policy "%s" is %s', async (policy, wanted, notes) => {
    const path = temporaryFolder({
      ...versions,
      'm/config.pbtxt': policy === '' ? '' : `version_policy { ${policy} }`,
    })
    const { entries, failures } = await readRepository(path)
    expect(failures).toEqual([])
    expect(entries).toMatchObject([
      { notes, configs: wanted.map((version) => ({ version, path: join(path, `m/${version}/model.onnx`) })) },
    ])
    expect(entries[0]!.configs).toHaveLength(wanted.length)
  })
  it('is found among numbers too large to be exact', async () => {
    const path = temporaryFolder({
      'm/1700000000000000001/model.onnx': '',
      'm/1700000000000000002/model.onnx': '',
    })
    expect((await readRepository(path)).entries[0]!.configs[0]!.version).toBe('1700000000000000002')
  })
})

describe('a model folder fails on its own', () => {
  it.each([
    [
      'without a version',
      { 'm/model.onnx': '' },
      { code: 'ERR_MODEL_NOT_FOUND', argument: 'version', received: 'none' },
    ],
    [
      'without the version wanted',
      { 'm/1/model.onnx': '', 'm/config.pbtxt': 'version_policy { specific { versions: 2 } }' },
      { code: 'ERR_MODEL_NOT_FOUND', argument: 'version', expected: '2', received: ['1'] },
    ],
    [
      'without a file in the newest version',
      { 'm/1/model.onnx': '', 'm/2/other.onnx': '' },
      { code: 'ERR_MODEL_NOT_FOUND', argument: 'path' },
    ],
    [
      'without the file named',
      { 'm/1/model.onnx': '', 'm/config.pbtxt': 'default_model_filename: "net.ort"' },
      { code: 'ERR_MODEL_NOT_FOUND', expected: expect.stringMatching(/net\.ort$/) },
    ],
    [
      'with a broken configuration',
      { 'm/1/model.onnx': '', 'm/config.pbtxt': 'name: "m' },
      { code: 'ERR_MODEL_CONFIG' },
    ],
  ])('%s', async (_, files, expected) => {
    const { entries, failures } = await readRepository(temporaryFolder({ ...files, 'good/1/model.onnx': '' }))
    expect(entries.map(({ name }) => name)).toEqual(['good'])
    expect(failures).toMatchObject([{ name: 'InferenceError', model: 'm', ...expected }])
  })
  it('with a config.pbtxt that is no file', async () => {
    const path = temporaryFolder({ 'm/1/model.onnx': '' })
    mkdirSync(join(path, 'm/config.pbtxt'))
    expect((await readRepository(path)).failures).toMatchObject([
      { code: 'ERR_MODEL_CONFIG', model: 'm', argument: 'config.pbtxt' },
    ])
  })
})

describe('a model for another backend', () => {
  it.each([
    [
      'by its platform',
      { 'm/1/model.plan': '', 'm/config.pbtxt': 'platform: "tensorrt_plan"' },
      { argument: 'platform', received: 'tensorrt_plan' },
    ],
    [
      'by its backend',
      { 'm/1/model.py': '', 'm/config.pbtxt': 'backend: "python"' },
      { argument: 'backend', received: 'python' },
    ],
    ['by its file', { 'm/1/model.pt': '' }, { argument: 'path', received: 'model.pt, of PyTorch' }],
  ])('is known %s, and is no failure', async (_, files, expected) => {
    const { entries, unsupported, failures } = await readRepository(
      temporaryFolder({ ...files, 'good/1/model.onnx': '' }),
    )
    expect([entries.map(({ name }) => name), failures]).toEqual([['good'], []])
    expect(unsupported).toMatchObject([{ code: 'ERR_MODEL_CONFIG', model: 'm', ...expected }])
    expect(unsupported[0]!.message).toMatch(/Only ONNX models are served/)
  })
})

const source = (text: string) => ({ model: 'm', file: 'config.pbtxt', text })

/** How often the names of `count` fields are looked at while each kind of read is done once. */
function nameReads(count: number): number {
  let reads = 0
  const noted: Record<string, string> = {}
  const fields = Array.from({ length: count }, (_, index): TextField => {
    const name = `field_${index}`
    noted[name] = 'of no use here'
    return {
      get name() {
        return (reads++, name)
      },
      offset: index,
      list: false,
      values: [],
    }
  })
  const config = new ConfigFields(source('\n'.repeat(count)), 'ModelConfig', fields, [])
  for (let index = 0; index < count; index += 3) config.string(`field_${index}`)
  config.messages('field_1')
  config.has('field_2')
  config.note('field_2', 'a note')
  config.finish({ noted })
  return reads
}

describe('a large config.pbtxt', () => {
  it('is read in one go: each field is looked at once, however many there are', () => {
    expect(nameReads(100)).toBe(100)
    expect(nameReads(10_000)).toBe(10_000)
  })

  it('tells lines and columns without reading it again', () => {
    const text = source('a: 1\n\nlong_name: 2\n')
    expect([0, 3, 4, 5, 6, 10, 19].map((offset) => Object.values(position(text, offset)))).toEqual([
      [1, 1],
      [1, 4],
      [1, 5],
      [2, 1],
      [3, 1],
      [3, 5],
      [4, 1],
    ])
  })

  it.each([
    ['lines of comments', '# comment\n'.repeat(300_000)],
    ['blank lines', ' \n\t'.repeat(1_000_000)],
    ['one string', `default_model_filename: "${'x'.repeat(3_000_000)}"`],
    ['one string of escapes', `default_model_filename: "${'\\t'.repeat(repetitions(1_500_000, 300_000))}"`],
    ['one string in pieces', `default_model_filename: ${'"x" '.repeat(repetitions(300_000, 150_000))}`],
    [
      'fields that are noted',
      Array.from({ length: repetitions(80_000, 30_000) }, (_, key) => `metric_tags { key: "${key}" }\n`).join(
        '',
      ),
    ],
  ])('may be made of %s', (_, text) => {
    expect(readModelConfig(source(text)).fileName ?? 'model.onnx').toMatch(/^model\.onnx$|^x+$|^\t+$/)
  })

  it.each([
    ['a number of a million digits', `max_batch_size: ${'9'.repeat(1_000_000)}`, 'a number'],
    ['a number of a million exponents', `max_batch_size: 1${'e+1'.repeat(1_000_000)}`, 'a number'],
    ['a string without an end', `name: "${'x'.repeat(3_000_000)}`, 'a string that ends on its line'],
  ])('is refused shortly: %s', async (_, text, expected) => {
    const error = await errorOf(() => parseTextFormat(source(text)))
    expect(error).toMatchObject({ name: 'InferenceError', code: 'ERR_MODEL_CONFIG', expected })
    expect(error.message.length).toBeLessThan(500)
  })
})

describe.skipIf(process.platform === 'win32')('a file of a repository', () => {
  it('is refused when it is a pipe, without waiting for what comes through', async () => {
    const path = temporaryFolder({ 'config/1/model.onnx': '', 'model/1/x': '', 'good/1/model.onnx': '' })
    for (const fifo of ['config/config.pbtxt', 'model/1/model.onnx', 'folder'])
      execFileSync('mkfifo', [join(path, fifo)])
    const { entries, failures } = await readRepository(path)
    expect(entries.map(({ name }) => name)).toEqual(['good'])
    expect(failures).toMatchObject([
      {
        code: 'ERR_MODEL_CONFIG',
        model: 'config',
        argument: 'config.pbtxt',
        received: 'it is a pipe, a socket or a device, not a regular file',
      },
      {
        code: 'ERR_MODEL_NOT_FOUND',
        model: 'model',
        argument: 'path',
        received: 'a folder, a pipe, a socket or a device',
      },
    ])
  })

  it('is refused when it is a config.pbtxt of more than 4 MiB, without reading it', async () => {
    const path = temporaryFolder({ 'm/1/model.onnx': '', 'm/config.pbtxt': '' })
    truncateSync(join(path, 'm/config.pbtxt'), 2 ** 34)
    expect((await readRepository(path)).failures).toMatchObject([
      {
        code: 'ERR_MODEL_CONFIG',
        model: 'm',
        argument: 'config.pbtxt',
        expected: 'at most 4194304 bytes',
        received: 'it has 17179869184 bytes',
      },
    ])
  })
})

const model = readFileSync(identity('float32', [2]))

function setUp() {
  const engine = new InferenceEngine()
  onTestFinished(() => engine.close())
  const load = (path: string, options: RepositoryOptions = {}) => engine.loadRepository(path, options)
  return { engine, load }
}

describe('loading a repository', () => {
  it('loads every model under the name of its folder', async () => {
    const { engine, load } = setUp()
    const config =
      'max_batch_size: 3 instance_group { kind: KIND_CPU } dynamic_batching { max_queue_delay_microseconds: 100 }'
    const models = await load(
      temporaryFolder({ 'b/1/model.onnx': model, 'a/2/model.onnx': model, 'a/config.pbtxt': config }),
    )
    expect(models.map(({ name, state, metadata }) => [name, state, metadata.maxBatchSize])).toEqual([
      ['a', 'ready', 3],
      ['b', 'ready', 4],
    ])
    const { y } = await engine.infer('a', { x: new Tensor('float32', Float32Array.of(1, 2, 3, 4), [2, 2]) })
    expect(y!.data).toEqual(Float32Array.of(1, 2, 3, 4))
  })
  it('takes a file: URL as well as a path', async () => {
    const { engine } = setUp()
    const path = temporaryFolder({ 'a/1/model.onnx': model })
    expect((await engine.loadRepository(pathToFileURL(path))).map(({ name }) => name)).toEqual(['a'])
    expect((await engine.load('a')).metadata.path).toBe(join(path, 'a/1/model.onnx'))
    expect(await errorOf(engine.loadRepository(new URL('https://example.org/models')))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument: 'path',
    })
  })
  it('loads the models asked for, and tells of notes', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'a/1/model.onnx': model,
      'a/config.pbtxt': 'runtime: "x"',
      'b/1/model.onnx': 'no model',
    })
    const notes: string[][] = []
    await load(path, { models: ['a'], onNote: (...note) => notes.push(note) })
    expect(engine.models().map(({ name }) => name)).toEqual(['a'])
    expect(notes).toEqual([['a', 'runtime (line 1): models are run by ONNX Runtime']])
  })
  it('is refused, with nothing loaded, when the function that is told of notes throws', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({ 'a/1/model.onnx': model, 'a/config.pbtxt': 'runtime: "x"' })
    const thrown = new Error('no notes, please')
    const error = await errorOf(
      load(path, {
        onNote: () => {
          throw thrown
        },
      }),
    )
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARG', argument: 'options.onNote', cause: thrown })
    expect(engine.models()).toEqual([])
  })
  it('waits for all, then rejects with an error per model that failed, and leaves the others ready', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'broken/1/model.onnx': 'no model',
      'good/1/model.onnx': model,
      'stateful/1/model.onnx': model,
      'stateful/config.pbtxt': 'sequence_batching { iterative_sequence: true }',
      'wide/1/model.onnx': model,
      'wide/config.pbtxt': 'max_batch_size: 2 dynamic_batching { preferred_batch_size: 4 }',
    })
    const error = await errorOf(load(path))
    expect(error).toMatchObject({ code: 'ERR_MODEL_LOAD', received: ['stateful', 'wide', 'broken'] })
    expect(error.message).toContain('3 of 4 models')
    expect(error.message).toContain('the other one is ready')
    expect((error.cause as AggregateError).errors).toMatchObject([
      { code: 'ERR_MODEL_CONFIG', model: 'stateful', argument: 'sequence_batching.iterative_sequence' },
      { code: 'ERR_MODEL_CONFIG', model: 'wide', argument: 'dynamic_batching.preferred_batch_size' },
      { code: 'ERR_MODEL_LOAD', model: 'broken' },
    ])
    expect((await engine.infer('good', { x: Float32Array.of(1, 2) }))['y']!.data).toEqual(
      Float32Array.of(1, 2),
    )
  })
  it('reports failures instead, if asked to, beside what is not for it and what has no file', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'broken/1/model.onnx': 'no model',
      'good/1/model.onnx': model,
      'torch/1/model.pt': '',
      'trt/1/model.plan': '',
      'trt/config.pbtxt': 'platform: "tensorrt_plan"',
      'empty/config.pbtxt': '',
      'fileless/1/weights.bin': '',
    })
    const models = await load(path, { failures: 'report' })
    expect(models.map(({ name }) => name)).toEqual(['good'])
    expect(models.unsupported.map(({ name, error }) => [name, error.code])).toEqual([
      ['torch', 'ERR_MODEL_CONFIG'],
      ['trt', 'ERR_MODEL_CONFIG'],
    ])
    expect(models.missing.map(({ name, error }) => [name, error.code])).toEqual([
      ['empty', 'ERR_MODEL_NOT_FOUND'],
      ['fileless', 'ERR_MODEL_NOT_FOUND'],
    ])
    expect(models.failed).toMatchObject([{ name: 'broken', error: { code: 'ERR_MODEL_LOAD' } }])
    expect(engine.models()).toHaveLength(1)
  })
  it('rejects for a model that is asked for by name and is not for it, or has no file', async () => {
    const { load } = setUp()
    const path = temporaryFolder({
      'good/1/model.onnx': model,
      'torch/1/model.pt': '',
      'fileless/1/weights.bin': '',
    })
    expect(await errorOf(load(path, { models: ['good', 'torch', 'fileless'] }))).toMatchObject({
      code: 'ERR_MODEL_LOAD',
      received: ['torch', 'fileless'],
    })
  })
  it('loads all versions that the policy allows, and again by name those that there are then', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'a/1/model.onnx': model,
      'a/2/model.onnx': model,
      'a/3/model.onnx': model,
      'a/config.pbtxt': 'version_policy { specific { versions: [1, 3] } }',
    })
    const versions = () => engine.model('a').versions.map(({ version }) => version)
    const models = await load(path)
    expect(models).toEqual([engine.model('a')])
    expect([versions(), models[0]!.version]).toEqual([[1, 3], 3])
    expect((await engine.infer('a', { x: Float32Array.of(1, 2) }, { version: 1 }))['y']!.data).toEqual(
      Float32Array.of(1, 2),
    )
    writeFileSync(`${path}/a/config.pbtxt`, 'version_policy { all {} }')
    expect(await engine.load('a')).toBe(models[0])
    expect(versions()).toEqual([1, 2, 3])
  })
  it('unloads, when a model is loaded by its name, the versions that its folder does not ask for any more, and no others', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'a/1/model.onnx': model,
      'a/2/model.onnx': model,
      'a/config.pbtxt': 'version_policy { all {} }',
    })
    const [loaded] = await load(path)
    const versions = () => loaded!.versions.map(({ version }) => version)
    await engine.load('a', { path: `${path}/a/1/model.onnx`, version: 9 })
    rmSync(`${path}/a/1`, { recursive: true })
    mkdirSync(`${path}/a/3`)
    writeFileSync(`${path}/a/3/model.onnx`, 'no model')
    expect(await errorOf(engine.load('a'))).toMatchObject({ code: 'ERR_MODEL_LOAD' })
    expect(versions()).toEqual([1, 2, 9])
    writeFileSync(`${path}/a/3/model.onnx`, model)
    const waiting = engine.infer('a', { x: Float32Array.of(1, 2) }, { version: 1 })
    await engine.load('a')
    await until(() => versions().length === 3)
    expect([versions(), (await waiting)['y']!.data]).toEqual([[2, 3, 9], Float32Array.of(1, 2)])
  })
  it('loads what is asked for, and later what a load by name asks for', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({
      'a/1/model.onnx': model,
      'b/1/model.onnx': model,
      'b/config.pbtxt': 'max_batch_size: 3',
      'c/1/model.pt': '',
    })
    expect(await errorOf(engine.load('b'))).toMatchObject({ code: 'ERR_MODEL_CONFIG', argument: 'config' })
    expect(await load(path, { mode: 'explicit' })).toHaveLength(0)
    expect((await engine.load('b')).metadata.maxBatchSize).toBe(3)
    expect(await errorOf(engine.load('c'))).toMatchObject({
      code: 'ERR_MODEL_CONFIG',
      model: 'c',
      received: 'model.pt, of PyTorch',
    })
    expect(await errorOf(engine.load('d'))).toMatchObject({
      code: 'ERR_MODEL_NOT_FOUND',
      expected: "a model of the repositories ('a', 'b', 'c')",
    })
    await engine.unload('b')
    expect((await engine.load('b')).state).toBe('ready')
  })
  it('replaces what is loaded already, and has it serve on where that fails', async () => {
    const { engine, load } = setUp()
    const path = temporaryFolder({ 'a/2/model.onnx': model })
    const [first] = await load(path)
    expect(await load(path)).toEqual([first])
    writeFileSync(`${path}/a/2/model.onnx`, 'no model')
    expect((await errorOf(load(path))).cause).toMatchObject({
      errors: [{ code: 'ERR_MODEL_LOAD', model: 'a' }],
    })
    expect([engine.models()[0]!.state, engine.model('a').version]).toEqual(['ready', 2])
  })
  it('rejects as closed on a closed engine', async () => {
    const { engine, load } = setUp()
    await engine.close()
    expect(await errorOf(load(temporaryFolder({ 'a/1/model.onnx': model })))).toMatchObject({
      code: 'ERR_CLOSED',
    })
  })
  it.each([
    ['', {}, 'path'],
    [7, {}, 'path'],
    ['.', null, 'options'],
    ['.', { model: 'a' }, 'options.model'],
    ['.', { models: 'a' }, 'options.models'],
    ['.', { models: [1] }, 'options.models'],
    ['.', { onNote: true }, 'options.onNote'],
    ['.', { mode: 'some' }, 'options.mode'],
    ['.', { failures: 'hide' }, 'options.failures'],
  ])('refuses the arguments %j, %j', async (path, options, argument) => {
    const { load } = setUp()
    expect(await errorOf(load(path as string, options as never))).toMatchObject({
      code: 'ERR_INVALID_ARG',
      argument,
    })
  })
})
