import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, vi } from 'vitest'
import type { Arrival } from '../../src/observe/arrival.ts'
import { ArrivalFile, ArrivalOrder } from '../../src/observe/arrival-recording.ts'
import { loadArrivals } from '../../packages/perf/src/recordings/read-arrivals.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-arrivals-'))
afterAll(() => rmSync(folder, { recursive: true }))
const path = join(folder, 'requests.jsonl')

const many = (count: number): Arrival[] =>
  Array.from({ length: count }, (_, index) => ({
    atUs: index * 10,
    rows: 1 + (index % 3),
    dims: { tokens: [1, index] },
  }))

describe('a recording that is written', () => {
  it('is read back as it was', async () => {
    const file = await ArrivalFile.create(path)
    const arrivals = many(10_000)
    for (const arrival of arrivals) file.add(arrival)
    await file.close()
    expect(file).toMatchObject({ recorded: 10_000, lost: 0, failure: null })
    expect(await loadArrivals(path)).toEqual(arrivals)
  })

  it('replaces one that is there', async () => {
    for (const count of [3, 1]) {
      const file = await ArrivalFile.create(path)
      for (const arrival of many(count)) file.add(arrival)
      await file.close()
    }
    expect(readFileSync(path, 'utf8').split('\n')).toHaveLength(2)
  })

  it('cannot be begun where no file can be', async () => {
    await expect(ArrivalFile.create(join(folder, 'none', 'file'))).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('keeps no more in memory than a limit when the disk is slow: what comes beyond is counted as lost', async () => {
    const file = await ArrivalFile.create(path)
    const arrivals = many(10_000).map((arrival) => ({ ...arrival, model: 'm'.repeat(1000) }))
    for (const arrival of arrivals) file.add(arrival) // in one turn: nothing can be written meanwhile
    expect(file.lost).toBeGreaterThan(0)
    await file.close()
    expect(file.recorded + file.lost).toBe(arrivals.length)
    expect(await loadArrivals(path)).toEqual(arrivals.slice(0, file.recorded))
  })

  it('is in its file a second later, however little there is', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const file = await ArrivalFile.create(path)
    file.add({ atUs: 0, rows: 1 })
    vi.advanceTimersByTime(1000)
    vi.useRealTimers()
    await expect.poll(() => readFileSync(path, 'utf8')).toBe('{"atUs":0,"rows":1}\n')
    await file.close()
  })

  it.skipIf(process.platform === 'win32')('waits for nobody to read a pipe', async () => {
    const pipe = join(folder, 'pipe')
    execFileSync('mkfifo', [pipe])
    await expect(ArrivalFile.create(pipe)).rejects.toMatchObject({ code: 'ENXIO' })
  })

  it.skipIf(!existsSync('/dev/full'))('ends when the disk is full, and says so', async () => {
    const file = await ArrivalFile.create('/dev/full')
    for (const arrival of many(5)) file.add(arrival)
    await file.close()
    expect(file).toMatchObject({ recorded: 0, lost: 5, failure: { code: 'ENOSPC' } })
    file.add({ atUs: 0, rows: 1 })
    expect(file.lost).toBe(6)
  })
})

describe('the order of a recording', () => {
  const written = () => {
    const lines: Arrival[] = []
    return { lines, order: new ArrivalOrder((arrival) => lines.push(arrival)) }
  }

  it('is that in which requests came, whatever that of their answers', () => {
    const { lines, order } = written()
    const [first, second, third] = many(3).map((arrival) => order.came(arrival))
    order.ended(third!, 30)
    order.ended(second!, null)
    expect(lines).toEqual([])
    order.ended(first!, 10)
    expect(lines.map(({ atUs, latencyUs }) => [atUs, latencyUs])).toEqual([
      [0, 10],
      [10, undefined],
      [20, 30],
    ])
  })

  it('leaves out the latency of requests that are on their way at the end', () => {
    const { lines, order } = written()
    const [, second] = many(2).map((arrival) => order.came(arrival))
    order.ended(second!, 5)
    order.end()
    expect(lines.map(({ latencyUs }) => latencyUs)).toEqual([undefined, 5])
  })

  it('waits for no request that is never answered: what is behind it goes on, and memory is bounded', () => {
    const { lines, order } = written()
    order.came({ atUs: 0, rows: 1 })
    for (const arrival of many(100_000)) order.ended(order.came(arrival), 1)
    expect(lines.length).toBeGreaterThan(100_000 - 65_537)
    expect(lines[0]).toEqual({ atUs: 0, rows: 1 })
    expect(lines[1]).toMatchObject({ latencyUs: 1 })
    order.end()
    expect(lines).toHaveLength(100_001)
  })

  it('does not write one again that ends after it was written', () => {
    const { lines, order } = written()
    const open = order.came({ atUs: 0, rows: 1 })
    order.end()
    order.ended(open, 7)
    expect(lines).toEqual([{ atUs: 0, rows: 1 }])
  })
})
