import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { identity } from '../../../../test/models/small.ts'
import { root, zerohop } from '../../../../test/cli/run.ts'

const model = identity('float32', [2])
const folder = mkdtempSync(join(tmpdir(), 'zerohop-perf-report-'))
const inFolder = (name: string) => join(folder, name)

describe('zerohop perf --report', () => {
  it('writes a page of what it measured, and keeps the result, of which perf-report makes pages again', async () => {
    const line = ['-m', identity('float32', [2]), '--concurrency-range', '1:2', '--request-count', '50']
    const measured = await zerohop(
      'perf',
      ...line,
      '--report',
      inFolder('page.html'),
      '--json',
      inFolder('kept.json'),
    )
    expect({ code: measured.code, stderr: measured.stderr }).toEqual({ code: 0, stderr: '' })
    expect(readFileSync(inFolder('page.html'), 'utf8')).toContain('<h1>Performance of ')
    expect(JSON.parse(readFileSync(inFolder('kept.json'), 'utf8'))).toMatchObject({
      mode: 'concurrency',
      levels: [{ level: 1 }, { level: 2 }],
      settings: { 'concurrency-range': '1:2:1', 'sequence-id-range': '1:4294967296' },
    })

    const again = await zerohop('perf-report', inFolder('kept.json'), '-o', inFolder('again.html'))
    expect(again).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect(readFileSync(inFolder('again.html'), 'utf8')).toBe(readFileSync(inFolder('page.html'), 'utf8'))

    const compared = await zerohop(
      'perf-report',
      inFolder('kept.json'),
      inFolder('kept.json'),
      '-o',
      inFolder('compared.html'),
    )
    expect(compared.code).toBe(0)
    expect(readFileSync(inFolder('compared.html'), 'utf8')).toMatch(
      /<h1>.*kept\.json 1 against .*kept\.json 2<\/h1>/,
    )
    expect(readdirSync(folder).sort()).toEqual(['again.html', 'compared.html', 'kept.json', 'page.html'])
  })

  it.each([
    [
      3,
      ['perf', '-m', 'missing.onnx', '--report', inFolder('no/out.html')],
      /^error: option '--report <file>' argument '.*' is invalid\. Expected the path of a file in a folder that is there\.\n$/,
    ],
    [3, ['perf', '-m', 'missing.onnx', '--report', folder], /Expected the path of a file\.\n$/],
    [
      2,
      ['perf-report', 'a.json', '-o', inFolder('no/out.html')],
      /^error: option '-o, --out <file>' argument '.*' is invalid/,
    ],
    [2, ['perf-report', 'a.json'], /^error: required option '-o, --out <file>' not specified/],
    [
      2,
      ['perf-report', '-o', inFolder('out.html'), ...Array.from({ length: 7 }, () => 'a.json')],
      /expected at most 6 results, received 7/,
    ],
    [
      2,
      ['perf-report', root + 'package.json', '-o', root + 'package.json'],
      /^error: --out .* is one of the results: name another file\n$/,
    ],
    [
      3,
      ['perf', '-m', model, '--report', inFolder('both'), '-f', inFolder('both')],
      /two results would be written to/,
    ],
    [3, ['perf', '-m', model, '-f', model], /is also read: name another file for the result\n$/],
    [
      1,
      ['perf-report', inFolder('none.json'), '-o', inFolder('out.html')],
      /^error: ENOENT: .*Check the path: .*\n$/,
    ],
  ])('exits with %d before it does anything: %j', async (code, line, message) => {
    const ended = await zerohop(...line)
    expect({ code: ended.code, stdout: ended.stdout }).toEqual({ code, stdout: '' })
    expect(ended.stderr).toMatch(message)
  })

  it('refuses a file that is no result, and writes no page', async () => {
    writeFileSync(inFolder('other.json'), '{"model":"m"}')
    const { code, stderr } = await zerohop(
      'perf-report',
      inFolder('other.json'),
      '-o',
      inFolder('never.html'),
    )
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(
        /^ERR_INVALID_ARG: .*other\.json: expected a result that zerohop perf --json has written/,
      ),
    })
    expect(readdirSync(folder)).not.toContain('never.html')
  })
})
