import { describe, expect, it, test } from 'vitest'
import { jpegLibrary } from '../../src/features/image/image-decoders.ts'
import { BINDING_VERSION, loadBinding } from '../../src/native/addon.ts'
import { jpegOf } from '../image/jpegs.ts'
import { hasJpegDecoder, missingJpegDecoder } from '../image/watched-decoder.ts'
import { full } from '../support/full.ts'
import { nothingBuilt, runOver, suites } from './binaries.ts'

// In every build, those without assertions included: what is wrong is refused, and nothing is changed by it.
describe.skipIf(nothingBuilt).each(suites)('arguments of %s', (binary) => {
  test('of a wrong type are TypeErrors, numbers that make no sense RangeErrors', () => {
    const both = [['TypeError'], ['RangeError']]
    expect(runOver(binary, 'arguments.mjs')).toEqual({
      calls: {
        acquire: both,
        'acquire 0': 'RangeError',
        'acquire too much': 'RangeError',
        device: both,
        'past the limit': ['TypeError'],
        acquireAsync: both,
        release: ['TypeError'],
        dropLimit: both,
        claimLimit: both,
        'configure nothing': ['TypeError'],
        slabBytes: both,
        limitBytes: both,
      },
      unchanged: true,
      usedBytes: 0,
    })
  })
})

/** What the addon of a version has. Who changes this raises the version: BINDING_VERSION, kBindingVersion in native/addon.cc, and here. */
const known = {
  version: '16',
  addon:
    'CompletionHub RunLoop acquire acquireAsync builtInProviders claimLimit configure copyRows cudaProbe decodeJpeg dropLimit fillRows lend noteExit nowMs openJpegDecoder openOnnxRuntime processes registerProvider release startOnnxRuntime stats threadCpuMs trim vectorInstructions version writePlanes',
  CompletionHub: 'constructor take takeDetails',
  RunLoop:
    'arena busy cancelBatch cancelQuestion close constructor defineLayout defineSlot dispose end enterPages forgetSlot id note open runHere runSample setNote shrinkArena start stop submit takeBack',
  processes: 'Bell close connect createArea handOver lock openArea peer receive releaseArea send socketPair',
}

const { binding } = loadBinding()
const namesOf = (value: object) => Object.getOwnPropertyNames(value).sort().join(' ')

it.skipIf(binding === null)(
  'the addon has what its version says, so that one that was left over is refused and not called',
  () => {
    const { version, CompletionHub, RunLoop, processes } = binding!
    const processNames = processes == null ? known.processes : namesOf(processes)
    const found = {
      version,
      addon: namesOf(binding!),
      CompletionHub: namesOf(CompletionHub.prototype as object),
      RunLoop: namesOf(RunLoop.prototype as object),
      processes: processNames,
    }
    expect(found).toEqual(known)
    expect(version).toBe(BINDING_VERSION)
  },
)

// Leases and bytes in use, before and after a worker with a lease is gone.
const orders: [order: string, held: [leases: number, usedBytes: number][]][] = [
  [
    'worker exits',
    [
      [1, 4096],
      [0, 0],
    ],
  ],
  [
    'worker releases its lease and exits',
    [
      [1, 4096],
      [0, 0],
    ],
  ],
  [
    'worker is terminated while it loops',
    [
      [1, 4096],
      [0, 0],
    ],
  ],
  [
    'worker throws',
    [
      [1, 4096],
      [0, 0],
    ],
  ],
  ['only a worker had it loaded', [[0, 0]]],
  ['main returns with leases of its own and of a worker', [[2, 8192]]],
  ['main calls process.exit while a worker loops', [[2, 8192]]],
]

describe.skipIf(nothingBuilt).each(suites)('teardown with %s', (binary) => {
  // The others hold the same, and end as quietly.
  const some = orders.filter(([order]) => full || !/releases|throws/.test(order))
  test.each(some)('the process ends well when: %s', (order, held) => {
    expect(runOver(binary, 'teardown.mjs', [order])).toEqual(held)
  })
})

describe.skipIf(nothingBuilt || !hasJpegDecoder).each(suites)(
  `while JPEGs are decoded with %s${missingJpegDecoder}`,
  (binary) => {
    it.each([
      ['all are waited for', [true]],
      ['the process exits', 'exits'],
      ['a worker is terminated', [true]],
    ])('the process ends well when: %s', async (order, answer) => {
      const jpeg = await jpegOf(40, 30)
      expect(runOver(binary, 'jpeg.mjs', [order, jpegLibrary(), jpeg.toString('base64')])).toEqual(answer)
    })
  },
)
