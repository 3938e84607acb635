import { readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { JsonArrayFile } from '../../src/observe/json-array-file.ts'
import { errorOf, temporaryFolder } from '../triton-repository/temporary.ts'

const fileIn = (name = 'array.json') => {
  const path = join(temporaryFolder({}), name)
  return {
    path,
    file: new JsonArrayFile(path),
    content: () => JSON.parse(readFileSync(path, 'utf8')) as unknown[],
  }
}

describe('an array that is written to a file', () => {
  it('takes the place of what the file held, however long that was, and is gone on with once closed', async () => {
    const { path, file, content } = fileIn()
    writeFileSync(path, 'x'.repeat(1000))
    await file.append('1')
    expect(content()).toEqual([1])
    await file.close()
    await file.append('2,3')
    expect(content()).toEqual([1, 2, 3])
    await file.close()
  })

  it('is begun anew when somebody has taken it away, put an empty file in its place, or emptied it', async () => {
    const { path, file, content } = fileIn()
    const changes = [
      () => rmSync(path),
      () => renameSync(path, `${path}.1`),
      () => (renameSync(path, `${path}.1`), writeFileSync(path, '')),
      () => truncateSync(path),
    ]
    await file.append('0')
    for (const [index, change] of changes.entries()) {
      change()
      await file.append(`${index + 1}`)
      expect(content()).toEqual([index + 1])
    }
    await file.close()
  })

  it('is left alone once somebody else writes to it', async () => {
    const { path, file, content } = fileIn()
    await file.append('"the first"')
    const other = new JsonArrayFile(path)
    await other.append('"the second, which has begun it anew"')
    expect((await errorOf(file.append('"more"'))).message).toMatch(
      /^something else has written to it: expected its 16 bytes, found 4[0-9]$/,
    )
    file.appendSync('"at the end"')
    expect(content()).toEqual(['the second, which has begun it anew'])
    await other.append('2')
    expect(content()).toHaveLength(2)
    await Promise.all([file.close(), other.close()])
  })

  it.each([1, 4_000_000])(
    'is whole where the process ends while %i bytes are on their way',
    async (length) => {
      for (let round = 0; round < 8; round++) {
        const { path, file, content } = fileIn()
        writeFileSync(path, 'of before'.repeat(10))
        if (round % 2 === 0) await file.append('0')
        const appended = file.append(JSON.stringify('x'.repeat(length)))
        for (let turn = 0; turn < round; turn++) await nextTurn()
        file.appendSync('"last"')
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5) // threads go on as the process ends, and nothing else
        expect(content()).toEqual([...(round % 2 === 0 ? [0] : []), 'x'.repeat(length), 'last'])
        await appended.catch(() => {})
        await file.close()
      }
    },
  )
})
