import { readdirSync } from 'node:fs'
import { expect, it } from 'vitest'
import { InferenceEngine } from '../../src/index.ts'
import { full } from '../support/full.ts'
import { limitMs, runFixture } from './child.ts'

interface Held {
  grewMb: number
  usedBytes: number
  reservedBytes: number
}

const native = new InferenceEngine().capabilities().native.available
const missing = native ? '' : ' (skipped: no addon, npm run build:native makes one)'

const kinds: [how: string, scenario: string][] = [['past the limit', 'native 64e6']]
if (full) kinds.push(['within a limit that was raised', 'native 4e9'])

/** Three large requests (of 40 MB), then small ones for three seconds at most. */
async function expectGivenBack(scenario: string): Promise<void> {
  const ending = await runFixture('memory.mjs', scenario, ['--expose-gc'])
  expect(ending).toMatchObject({ code: 0, signal: null, hung: false })
  const { right, peak, idle, unloaded } = ending.answer as {
    right: boolean
    peak: Held
    idle: Held
    unloaded: Held
  }
  expect(right).toBe(true)
  expect(peak.usedBytes).toBeGreaterThan(60e6) // what is copied is kept by nothing but its request
  expect(peak.reservedBytes).toBeGreaterThanOrEqual(peak.usedBytes)
  expect(idle.grewMb).toBeLessThan(35)
  expect(idle.usedBytes).toBeLessThan(1e6)
  expect(idle.reservedBytes).toBeLessThanOrEqual(16 * 2 ** 20)
  expect(unloaded.grewMb).toBeLessThan(35)
  expect(unloaded.usedBytes).toBe(0)
  expect(unloaded.reservedBytes).toBeLessThan(1e6) // a small slot of shared memory may not be collected yet
}

it.skipIf(!native).each(kinds)(
  `the memory of large requests goes back while small ones come: %s${missing}`,
  { timeout: limitMs + 10_000 },
  (_, scenario) => expectGivenBack(scenario),
)

it(
  'the shared memory of large requests goes back, once the application has collected garbage',
  { timeout: limitMs + 10_000 },
  () => expectGivenBack('copied 64e6'),
)

// glibc keeps freed memory for later, which after an opening is more than the weights; other C libraries do not.
const glibc = process.platform === 'linux' && !readdirSync('/lib').some((name) => name.startsWith('ld-musl'))
it.skipIf(!native || !glibc)(
  `outputs of half a MB lie in memory that was freed before${missing}`,
  { timeout: limitMs },
  async () => {
    const ofTheUser = {
      NODE_OPTIONS: '',
      MALLOC_TRIM_THRESHOLD_: undefined,
      MALLOC_MMAP_THRESHOLD_: undefined,
    }
    const ending = await runFixture('large-outputs.mjs', '', [], { ...ofTheUser, GLIBC_TUNABLES: '' })
    expect(ending).toMatchObject({ code: 0, signal: null, hung: false })
    expect((ending.answer as { faults: number }).faults).toBeLessThan(30) // 144 of 4 KiB from the system each time
  },
)

it.skipIf(!native || !glibc)(
  `a model takes little more than its weights, and gives them back when it is unloaded${missing}`,
  { timeout: limitMs },
  async () => {
    const ending = await runFixture('weights.mjs', '', ['--expose-gc'])
    expect(ending).toMatchObject({ code: 0, signal: null, hung: false })
    const { loadedMb, unloadedMb } = ending.answer as { loadedMb: number; unloadedMb: number }
    expect(loadedMb).toBeGreaterThan(60)
    expect(loadedMb).toBeLessThan(80)
    expect(unloadedMb).toBeLessThan(20)
  },
)
