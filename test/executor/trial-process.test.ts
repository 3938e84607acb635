import { describe, expect, it } from 'vitest'
import { tryInProcess } from '../../src/run/executors/native/trial-process.ts'

const program = '../test/executor/fixtures/child.mjs' // by its way from the compiled files
const ask = (program: string, what: string, limitMs = 30_000, endsWell = false) =>
  tryInProcess(program, [what], limitMs, endsWell)

describe('what is tried in a separate process', () => {
  it('answers, and is not waited for any longer', async () => {
    expect(await ask(program, 'answers and stays')).toEqual({ largest: Infinity })
  })

  it('has to end well where that is part of the trial', async () => {
    expect(await ask(program, 'answers', 30_000, true)).toEqual({ largest: Infinity })
    expect(await ask(program, 'answers and aborts', 30_000, true)).toEqual({
      reason: expect.stringContaining('SIGABRT'),
    })
  })

  it.each([
    ['is killed by what it does', 'aborts', 30_000, /ended: with SIGABRT/],
    ['fails', 'fails', 30_000, /ended: with exit code 1 \([^]*on purpose/],
    ['ends without a word', 'nothing', 30_000, /it printed nothing/],
    ['does not come to an end', 'hangs', 500, /took more than 500 ms/],
  ])('harms nobody when it %s', async (_, what, limitMs, reason) => {
    expect(await ask(program, what, limitMs)).toEqual({ reason: expect.stringMatching(reason) })
  })

  it('need not be there', async () => {
    expect(await ask('absent.js', '')).toEqual({
      reason: expect.stringMatching(/could not be started: zerohop's absent\.js is not in /),
    })
  })
})
