import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { buildHash } from '../../src/tune/state-file.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
afterAll(() => rmSync(folder, { recursive: true }))

describe('the hash of a build', () => {
  it('is another one for other compiled files or another addon, and no other for what is not run', () => {
    const none = buildHash(folder)
    mkdirSync(join(folder, 'dist/inner'), { recursive: true })
    writeFileSync(join(folder, 'dist/inner/a.js'), 'one')
    const first = buildHash(folder)
    writeFileSync(join(folder, 'dist/inner/a.d.ts'), 'types')
    expect(buildHash(folder)).toBe(first)
    writeFileSync(join(folder, 'dist/inner/a.js'), 'two')
    const second = buildHash(folder)
    mkdirSync(join(folder, 'prebuilds/linux-x64'), { recursive: true })
    writeFileSync(join(folder, 'prebuilds/linux-x64/zerohop.node'), 'an addon')
    expect(new Set([none, first, second, buildHash(folder)]).size).toBe(4)
  })
})
