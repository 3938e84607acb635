import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { peers } from '../../bench/peers/peers.ts'
import { expectedSeconds, levelsOf, planOf, shortenedOf } from '../../bench/peers/plan.ts'
import { readState } from '../../bench/peers/state.ts'
import type { Workload } from '../../bench/peers/workload.ts'

const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
afterAll(() => rmSync(folder, { recursive: true }))

const workload = { name: 'mlp', rates: [5], inProcessRates: [9], usualPerSecond: 100 } as unknown as Workload
const peerNamed = (name: string) => peers.find((peer) => peer.name === name)!

describe('the plan', () => {
  const plan = planOf({ quick: false, smoke: false, rounds: 2, seconds: 1 })

  it('holds closed loops before open ones, and more rates in process', () => {
    const levels = levelsOf(plan, peerNamed('zerohop'), workload)
    expect(levels.map(({ callers, ratePerSecond }) => callers ?? `${ratePerSecond}/s`)).toEqual([
      1,
      8,
      64,
      256,
      '5/s',
      '9/s',
    ])
    expect(
      levelsOf(plan, peerNamed('fastapi'), workload).map(
        ({ callers, ratePerSecond }) => callers ?? `${ratePerSecond}/s`,
      ),
    ).toEqual([1, 8, 64, 256, '5/s'])
  })

  it('holds a rate for 200 requests where they come within 12 seconds, and no longer than is asked in a smoke run', () => {
    const secondsOf = (asked: Parameters<typeof planOf>[0], ...rates: number[]): number[] =>
      levelsOf(planOf(asked), peerNamed('fastapi'), { ...workload, rates })
        .filter(({ callers }) => callers === undefined)
        .map(({ seconds }) => seconds)
    expect(secondsOf({ quick: false, smoke: false, seconds: 1 }, 5, 20)).toEqual([12, 10])
    expect(secondsOf({ quick: false, smoke: false, seconds: 1 }, 50, 500)).toEqual([4, 2])
    expect(secondsOf({ quick: false, smoke: false }, 50, 500)).toEqual([8, 8])
    expect(secondsOf({ quick: false, smoke: true, seconds: 0.1 }, 5)).toEqual([0.2])
  })

  it('counts the time that rates are held in what it takes', () => {
    const seconds = (rate: number) =>
      expectedSeconds(plan, [{ peer: peerNamed('fastapi'), workload: { ...workload, rates: [rate] } }])
    expect(seconds(5) - seconds(500)).toBeCloseTo(2 * (12 - 2))
  })

  it('knows whether it is a shortened one', () => {
    const shortened = (changes: { seconds?: number; rounds?: number }, quick = false) =>
      shortenedOf(planOf({ quick, smoke: false, ...changes }))
    expect(shortened({})).toBeNull()
    expect(shortened({ seconds: 8, rounds: 5 })).toBeNull()
    expect(shortened({ seconds: 1 })).toEqual({ seconds: 1, rounds: 3 })
    expect(shortened({ rounds: 2 })).toEqual({ seconds: 4, rounds: 2 })
    expect(shortened({}, true)).toEqual({ seconds: 0.5, rounds: 1 })
  })

  it('takes as long as its rounds', () => {
    const pairs = [{ peer: peerNamed('zerohop'), workload: workload }]
    expect(expectedSeconds({ ...plan, rounds: 4 }, pairs)).toBe(2 * expectedSeconds(plan, pairs))
  })

  it('goes on from results of the same plan only', () => {
    const file = join(folder, 'result.json')
    expect(readState(file, plan).units).toEqual([])
    writeFileSync(file, JSON.stringify({ details: { plan, units: [{ peer: 'zerohop' }] } }))
    expect(readState(file, plan).units).toEqual([{ peer: 'zerohop' }])
    expect(readState(file, plan)).toMatchObject({ versions: {}, missing: {} })
    expect(() => readState(file, { ...plan, seconds: 9 })).toThrow('holds results of another plan')
  })
})
