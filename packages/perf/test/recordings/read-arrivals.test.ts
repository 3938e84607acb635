import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { Arrival } from '../../../../src/observe/arrival.ts'
import { loadArrivals, readArrivals } from '../../src/recordings/read-arrivals.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-arrivals-'))
afterAll(() => rmSync(folder, { recursive: true }))

const file = join(folder, 'requests.jsonl')
const reading = (text: string | Buffer) => {
  writeFileSync(file, text)
  return loadArrivals(file)
}
const line = (arrival: object) => `${JSON.stringify(arrival)}\n`

describe('a recording', () => {
  const full: Arrival = {
    atUs: 2500.5, rows: 3, model: 'resnet50', dims: { tokens: [3, 77] }, priority: 2, timeoutMs: 5, deadlineMs: 10, sequenceId: 'a', latencyUs: 1234,
  } // prettier-ignore

  it('is read as it is, without what is no part of a request', async () => {
    expect(await reading(line({ atUs: 0, rows: 1, note: 'first' }) + line(full))).toEqual([
      { atUs: 0, rows: 1 },
      full,
    ])
  })

  it('may have empty lines, line ends of Windows, and no end of its last line', async () => {
    expect(await reading('{"atUs":0,"rows":1}\r\n\n  \n{"atUs":1,"rows":2}')).toHaveLength(2)
  })

  it('is read across the borders of what is read at once, also within a character', async () => {
    const arrivals = Array.from({ length: 5000 }, (_, index) => ({
      atUs: index,
      rows: 1,
      model: 'größe'.repeat(1 + (index % 7)),
    }))
    expect(await reading(arrivals.map(line).join(''))).toEqual(arrivals)
  })

  it('is read no further than its reader goes', async () => {
    writeFileSync(file, `${line({ atUs: 0, rows: 1 })}no request`)
    for await (const arrival of readArrivals(file)) {
      expect(arrival.atUs).toBe(0)
      break
    }
  })
})

describe('a last line that was cut short', () => {
  it.each(['{"atUs":9,"ro', '{"atUs":9,"rows":1,"runs":[{"takenAtUs":5'])('is left out: %s', async (cut) => {
    expect(await reading(`{"atUs":5,"rows":1}\n${cut}`)).toEqual([{ atUs: 5, rows: 1 }])
    await expect(reading(`{"atUs":5,"rows":1}\n${cut}\n{"atUs":10,"rows":1}\n`)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
    })
  })

  it('counts where it is whole but for its end', async () => {
    expect(await reading('{"atUs":5,"rows":1}\n{"atUs":9,"rows":2}')).toHaveLength(2)
  })
})

describe('misuse', () => {
  it.each([
    ['no JSON', 'rows: 1', 'a request in JSON'],
    ['JSON of something else', '[1]', 'a request in JSON'],
    ['no time', '{"rows":1}', 'atUs: expected a number from 0 to 1e15'],
    [
      'a time before that of the line above',
      '{"atUs":4,"rows":1}',
      'atUs: expected at least 5, the value of the line before',
    ],
    ['no rows', '{"atUs":5}', 'rows: expected a whole number of at least 1'],
    [
      'more rows than memory has',
      '{"atUs":5,"rows":9007199254740991}',
      'rows: expected a whole number of at least 1',
    ],
    ['a time that nothing takes', '{"atUs":1e300,"rows":1}', 'atUs: expected a number from 0 to 1e15'],
    [
      'a run of no rows',
      '{"atUs":5,"rows":1,"runs":[{"takenAtUs":1,"rows":0,"requests":1,"instance":"a","gatherUs":0,"handOverUs":0,"runUs":1,"wakeUs":0,"scatterUs":0}]}',
      'runs: expected runs with rows',
    ],
    [
      'a configuration of more instances than there can be',
      '{"atUs":5,"rows":1,"config":{"instances":1e9}}',
      'config: expected a configuration',
    ],
    ['half a row', '{"atUs":5,"rows":0.5}', 'rows: expected a whole number of at least 1'],
    ['dims that are no lists', '{"atUs":5,"rows":1,"dims":{"a":3}}', 'dims: expected lists of whole numbers'],
    ['a priority in words', '{"atUs":5,"rows":1,"priority":"high"}', 'priority: expected a whole number'],
    [
      'a time that is none',
      '{"atUs":5,"rows":1,"timeoutMs":-1}',
      'timeoutMs: expected a number above 0 and below 2^31',
    ],
    [
      'a time in which nothing is answered',
      '{"atUs":5,"rows":1,"deadlineMs":0}',
      'deadlineMs: expected a number above 0 and below 2^31',
    ],
    ['a model without a name', '{"atUs":5,"rows":1,"model":""}', 'model: expected a name'],
  ])('a line with %s is an error with its number', async (_, wrong, expected) => {
    await expect(reading(`{"atUs":5,"rows":1}\n\n${wrong}\n`)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
      message: expect.stringContaining(expected) as string,
    })
    await expect(reading(`{"atUs":5,"rows":1}\n\n${wrong}\n`)).rejects.toThrow(`${file}:3`)
  })

  it('a line without an end is refused before it is in memory', async () => {
    await expect(reading(Buffer.alloc(3 << 20, 32))).rejects.toThrow(
      /:1: expected a line of at most 1048576 bytes/,
    )
  })

  it('a file without requests, or with more than fit, is refused', async () => {
    await expect(reading('\n')).rejects.toMatchObject({ code: 'ERR_INVALID_ARG' })
    writeFileSync(file, line({ atUs: 0, rows: 1 }).repeat(3))
    await expect(loadArrivals(file, 2)).rejects.toThrow('2 requests at most')
  })

  it('a file that is not there, or none, is an error of its path', async () => {
    await expect(loadArrivals(join(folder, 'none'))).rejects.toMatchObject({ code: 'ENOENT' })
    await expect(loadArrivals(folder)).rejects.toMatchObject({ code: 'EISDIR' })
  })
})
