import { describe, expect, it } from 'vitest'
import type { ValueMetadata } from '../src/tensor/metadata.ts'
import { checkRowBytes } from '../src/engine/load-failure.ts'
import * as small from './models/small.ts'
import { ownEngine } from './support/open.ts'

const value = (name: string, shape: (number | string)[], type = 'float32') =>
  ({ name, type, shape }) as unknown as ValueMetadata
const gibibyte = 2 ** 30

describe('a row', () => {
  it.each<[string, ValueMetadata[], ValueMetadata[], string, RegExp]>([
    [
      'an input of terabytes',
      [value('x', ['N', 2 ** 40])],
      [value('y', ['N', 4])],
      "input 'x'",
      /at most 2147483648 bytes in one row, received '4398046511104 bytes in \[N, 1099511627776\] of float32'/,
    ],
    [
      'an output of gigabytes',
      [value('x', ['N', 4])],
      [value('y', [3, 2 ** 31], 'int64')],
      "output 'y'",
      /51539607552 bytes/,
    ],
    [
      'dimensions whose product is beyond any',
      [value('x', [2 ** 62, 2 ** 62, 2 ** 62])],
      [],
      "input 'x'",
      /bytes/,
    ],
    [
      'many that are too much together',
      [value('a', [gibibyte / 2]), value('b', [gibibyte / 2])],
      [value('c', [gibibyte / 2])],
      'inputs and outputs',
      /6442450944 bytes in all/,
    ],
  ])('of %s is refused by its size', (_, inputs, outputs, name, told) => {
    expect(() => checkRowBytes('m', { inputs, outputs }, 5 * gibibyte)).toThrow(
      expect.objectContaining({
        code: 'ERR_MODEL_LOAD',
        argument: name,
        model: 'm',
        message: expect.stringMatching(told) as string,
      }),
    )
  })

  it('that the memory of the machine cannot hold is refused', () => {
    expect(() =>
      checkRowBytes('m', { inputs: [value('x', [gibibyte / 4])], outputs: [] }, gibibyte - 1),
    ).toThrow(/at most 1073741823 bytes/)
  })

  it('of hundreds of megabytes, of text or of open dimensions is not', () => {
    expect(() =>
      checkRowBytes(
        'm',
        {
          inputs: [value('x', ['N', 50_000_000]), value('w', ['a', 'b', 'c'])],
          outputs: [value('y', ['N', 0, 2 ** 50])],
        },
        4 * gibibyte,
      ),
    ).not.toThrow()
  })
})

it('a model that declares rows of gigabytes is refused at once, in a sentence that names the size', async () => {
  await expect(ownEngine().load('m', { path: small.bigRow(2 ** 31) })).rejects.toMatchObject({
    code: 'ERR_MODEL_LOAD',
    message: expect.stringContaining("input 'x' of model 'm': expected at most") as string,
  })
})
