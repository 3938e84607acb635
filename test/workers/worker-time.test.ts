import { expect, it } from 'vitest'
import { WorkerTime } from '../../src/workers/worker-time.ts'
import type { Tenant } from '../../src/workers/tenant.ts'
import { FakeClock } from '../fake-clock.ts'

const tenant = {} as Tenant

function setup() {
  const clock = new FakeClock(1000)
  const time = new WorkerTime(clock)
  time.shares.join(tenant)
  return { clock, time }
}

it('a worker is free when its run and what waits behind it are done, as reckoned', () => {
  const { clock, time } = setup()
  expect(time.freeInMs).toBe(0)
  time.given(tenant, 0, 30, false)
  time.given(tenant, 1, 20, false)
  expect(time.freeInMs).toBe(50)
  clock.advanceBy(10)
  expect(time.freeInMs).toBe(40)
  time.back(0, 10)
  expect(time.freeInMs).toBe(20)
  time.back(1, 20)
  expect(time.freeInMs).toBe(0)
})

it('a run that is late is reckoned to be late by as much again, and what waits behind it takes its time after that', () => {
  const { clock, time } = setup()
  time.given(tenant, 0, 30, false)
  time.given(tenant, 1, 20, false)
  clock.advanceBy(30)
  expect(time.freeInMs).toBe(1 + 20) // busy still
  clock.advanceBy(15)
  expect(time.freeInMs).toBe(15 + 20)
})
