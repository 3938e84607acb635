import { execFileSync } from 'node:child_process'
import { truncateSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ConfigFields } from '../../src/features/triton-repository/config-fields.ts'
import { readModelConfig } from '../../src/features/triton-repository/config-pbtxt.ts'
import {
  parseTextFormat,
  position,
  type TextField,
} from '../../src/features/triton-repository/text-format.ts'
import { readRepository } from '../../src/features/triton-repository/load-repository.ts'
import { errorOf, temporaryFolder } from './temporary.ts'

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
    ['one string of escapes', `default_model_filename: "${'\\t'.repeat(1_500_000)}"`],
    ['one string in pieces', `default_model_filename: ${'"x" '.repeat(300_000)}`],
    [
      'fields that are noted',
      Array.from({ length: 80_000 }, (_, key) => `metric_tags { key: "${key}" }\n`).join(''),
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
