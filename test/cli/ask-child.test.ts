import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { askChild } from '../../src/cli/ask-child.ts'

const program = fileURLToPath(new URL('fixtures/child.mjs', import.meta.url))

describe('a child that is asked', () => {
  it('answers with what it has found, and caches nothing', async () => {
    expect(await askChild(program, ['answers'], 30_000)).toEqual({ answer: { largest: Infinity, cache: 'off' } })
  })

  it.each([
    ['is killed by what it does', 'aborts', 30_000, /^ended with SIGABRT/],
    ['fails', 'fails', 30_000, /^ended with exit code 1 \([^]*on purpose/],
    ['ends without a word', 'nothing', 30_000, /^ended with exit code 0$/],
    ['does not come to an end', 'hangs', 500, /^was stopped after 0\.5 s$/],
  ])('harms nobody when it %s', async (_, what, limitMs, ended) => {
    expect(await askChild(program, [what], limitMs)).toEqual({ ended: expect.stringMatching(ended) })
  })

  it('need not be there', async () => {
    expect(await askChild('/absent.mjs', [], 30_000)).toEqual({ ended: expect.stringContaining('ended with exit code 1') })
  })
})
