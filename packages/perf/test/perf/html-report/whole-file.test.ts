import { mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { checkFilePlace, writeWholeFile } from '../../../src/perf/html-report/saved-result.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'zerohop-file-'))
})

describe('a file that is written whole', () => {
  it('is there, and nothing else is', async () => {
    await writeWholeFile('--report', join(folder, 'out.html'), 'all of it')
    expect(readdirSync(folder)).toEqual(['out.html'])
    expect(readFileSync(join(folder, 'out.html'), 'utf8')).toBe('all of it')
  })

  it('takes the place of the one before, also where a link leads there', async () => {
    writeFileSync(join(folder, 'old.html'), 'a longer text from before')
    symlinkSync(join(folder, 'old.html'), join(folder, 'link.html'))
    await writeWholeFile('--report', join(folder, 'link.html'), 'new')
    expect(readFileSync(join(folder, 'old.html'), 'utf8')).toBe('new')
    expect(readdirSync(folder).sort()).toEqual(['link.html', 'old.html'])
  })

  it('is refused, before anything is measured, in a folder that is missing', async () => {
    const path = join(folder, 'missing/out.html')
    for (const write of [
      async () => checkFilePlace('--report', path),
      () => writeWholeFile('--report', path, ''),
    ]) {
      await expect(write()).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG',
        argument: '--report',
        received: path,
        message: expect.stringMatching(
          /^--report: expected the path of a file in a folder that is there, received '.*'\. There is no folder .*missing\. Make it, or name another/,
        ),
      })
    }
  })

  it('is refused below what is no folder, and in the place of what is no file', async () => {
    writeFileSync(join(folder, 'file'), '')
    mkdirSync(join(folder, 'folder'))
    expect(() => checkFilePlace('--report', join(folder, 'file/out.html'))).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining('It is no folder'),
      }),
    )
    expect(() => checkFilePlace('--report', join(folder, 'folder'))).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining('no file. Name another'),
      }),
    )
    await expect(writeWholeFile('--report', '/dev/null', 'x')).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG',
    })
    expect(readdirSync(folder).sort()).toEqual(['file', 'folder'])
  })

  it('leaves nothing behind where it cannot be written', async () => {
    await expect(writeWholeFile('--report', join(folder, 'x'.repeat(300)), 'text')).rejects.toMatchObject({
      code: 'ENAMETOOLONG',
    })
    expect(readdirSync(folder)).toEqual([])
  })
})
