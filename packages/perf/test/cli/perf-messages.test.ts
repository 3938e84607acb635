import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { identity } from '../../../../test/models/small.ts'
import { zerohop } from '../../../../test/cli/run.ts'

const repository = mkdtempSync(join(tmpdir(), 'zerohop-names-'))
for (const name of ['digits', 'squeezenet1.1']) mkdirSync(join(repository, name))
afterAll(() => rmSync(repository, { recursive: true }))

describe('zerohop perf says what is wrong, and what it would be otherwise', () => {
  it.each([
    [
      'which part of a range',
      ['-m', 'm.onnx', '--concurrency-range', '1:4:0'],
      "The step is '0'. Expected a whole number from 1 to",
    ],
    [
      'the form of a parameter',
      ['-m', 'm.onnx', '--request-parameter', 'priority'],
      'Expected name:value:type',
    ],
    [
      'what stands for an option of perf_analyzer, and only that',
      ['-m', 'm.onnx', '-t', '4'],
      "option '-t' of perf_analyzer does not exist here: deprecated in perf_analyzer: use --concurrency-range",
    ],
    [
      'the models of a repository',
      ['-m', 'squeezenet', '--model-repository', repository],
      'it has digits, squeezenet1.1',
    ],
    ['where a model was looked for', ['-m', 'squeezenet'], resolve('squeezenet')],
    [
      'that a file has no versions',
      ['-m', identity('float32'), '-x', '3'],
      'none, as only models of a repository have versions, and this is a file',
    ],
  ])('%s', async (_, line, text) => {
    const { code, stderr } = await zerohop('perf', ...line)
    expect(code).not.toBe(0)
    expect(stderr).toContain(text)
  })
})
