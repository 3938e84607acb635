import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { checkRegularFile, readRegularFile } from '../src/base/files.ts'
import { errorOf, temporaryFolder } from './triton-repository/temporary.ts'

const bytes = (length: number) => Buffer.from(Array.from({ length }, (_, index) => index % 251))

describe('a regular file', () => {
  it.each([0, 1, 65_535, 65_536, 300_000])('is read as it is: %d bytes', async (length) => {
    const path = join(temporaryFolder({ file: bytes(length) }), 'file')
    expect((await readRegularFile(path, length)).equals(bytes(length))).toBe(true)
    await expect(checkRegularFile(path)).resolves.toBeUndefined()
  })

  it('is refused as soon as it is longer than the limit', async () => {
    const path = join(temporaryFolder({ file: bytes(10) }), 'file')
    expect(await errorOf(readRegularFile(path, 9))).toMatchObject({
      code: 'EFBIG',
      message: 'it has 10 bytes',
    })
  })

  it.skipIf(!existsSync('/proc/self/status'))('may keep its length to itself', async () => {
    const path = '/proc/cpuinfo'
    expect((await readRegularFile(path, 2 ** 22)).length).toBeGreaterThan(readFileSync(path).length / 2)
    expect(await errorOf(readRegularFile(path, 20))).toMatchObject({
      code: 'EFBIG',
      message: 'it has more than 20 bytes',
    })
  })

  it('may grow while it is read, up to the limit', async () => {
    const path = join(temporaryFolder({ file: bytes(1000) }), 'file')
    const reading = readRegularFile(path, 2000)
    appendFileSync(path, bytes(100_000))
    const outcome = await reading.then(
      (data) => data.length,
      ({ code }: { code: string }) => code,
    )
    expect([1000, 'EFBIG']).toContain(outcome)
  })

  it('is refused with the error of the system when there is none', async () => {
    expect(await errorOf(checkRegularFile(join(temporaryFolder({}), 'missing')))).toMatchObject({
      code: 'ENOENT',
    })
    expect(await errorOf(checkRegularFile('nul\0byte'))).toMatchObject({ code: 'ERR_INVALID_ARG_VALUE' })
  })
})
