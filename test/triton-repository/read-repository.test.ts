import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ModelConfig } from '../../src/index.ts'
import { readRepository } from '../../src/features/triton-repository/load-repository.ts'
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
