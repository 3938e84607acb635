import { describe, expect, it } from 'vitest'
import { doAll, Slices, type Pieces } from '../src/base/slices.ts'

/** Slices with a clock that only work moves, and turns that are taken by hand. */
function manual() {
  let nowMs = 0
  const turns: (() => void)[] = []
  const done: string[] = []
  const slices = new Slices(
    () => nowMs,
    (turn) => turns.push(turn),
  )
  function* work(name: string, pieces: number): Pieces<string> {
    for (let piece = 1; piece < pieces; piece++) {
      nowMs += 0.25
      done.push(name)
      yield
    }
    nowMs += 0.25
    done.push(name)
    return name
  }
  const turn = () => turns.shift()?.()
  return { slices, work, turn, done: () => done.splice(0).join(''), left: () => turns.length }
}

describe('work in slices', () => {
  it('that is short is done at once', async () => {
    const { slices, work, done } = manual()
    const result = slices.run(work('a', 3), 10)
    expect(done()).toBe('aaa')
    expect(await result).toBe('a')
  })

  it('goes on for a millisecond in each turn of the event loop, whoever asks', async () => {
    const { slices, work, turn, done, left } = manual()
    const results = [slices.run(work('a', 10), 10), slices.run(work('b', 3), 20)]
    expect(done()).toBe('aaaa')
    turn()
    expect(done()).toBe('aaaa')
    turn()
    expect(done()).toBe('aabb')
    turn()
    expect(done()).toBe('b')
    expect(await Promise.all(results)).toEqual(['a', 'b'])
    turn()
    expect(left()).toBe(0)
  })

  it('that is small goes before what is large and was there first', () => {
    const { slices, work, turn, done } = manual()
    for (const name of ['A', 'B', 'C']) void slices.run(work(name, 6), 10_000_000)
    expect(done()).toBe('AAAA')
    void slices.run(work('s', 2), 100)
    turn()
    expect(done()).toBe('ssAA')
  })

  it('that is large is not begun while as much as may be is under way, what is small always is', () => {
    const { slices, work, turn, done } = manual()
    for (const [name, size] of [
      ['A', 9e6],
      ['B', 8e6],
      ['C', 7e6],
    ] as const)
      void slices.run(work(name, 8), size)
    turn()
    expect(done()).toBe('AAAACCCC') // C is the second that is begun
    void slices.run(work('D', 2), 1e6)
    void slices.run(work('s', 2), 100)
    turn()
    expect(done()).toBe('ssCC')
    turn()
    expect(done()).toBe('CCDD')
  })

  it('ends with its signal, before it is begun and within, and others go on', async () => {
    const { slices, work, turn, done } = manual()
    const [first, second] = [new AbortController(), new AbortController()]
    const results = [
      slices.run(work('a', 8), 10, first.signal),
      slices.run(work('b', 8), 20, second.signal),
      slices.run(work('c', 1), 30),
    ]
    first.abort(new Error('the first'))
    second.abort(new Error('the second'))
    await expect(results[0]).rejects.toThrow('the first')
    await expect(results[1]).rejects.toThrow('the second')
    await expect(slices.run(work('d', 1), 1, first.signal)).rejects.toThrow('the first')
    turn()
    expect(done()).toBe('aaaac')
    expect(await results[2]).toBe('c')
  })

  it('rejects with what it throws', async () => {
    const { slices } = manual()
    const throwing = function* (): Pieces<void> {
      yield
      throw new Error('thrown')
    }
    await expect(slices.run(throwing(), 1)).rejects.toThrow('thrown')
    expect(() => doAll(throwing())).toThrow('thrown')
  })
})
