import { expect, it } from 'vitest'
import { InferenceEngine } from '../../src/index.ts'
import { fakeCudaFolder } from '../native/binaries.ts'
import { limitMs, runFixture } from './child.ts'

const possible = fakeCudaFolder !== undefined && new InferenceEngine().capabilities().native.available
const missing = possible
  ? ''
  : ' (skipped: no addon or no fake driver, npm run build:native and test:native make them)'

it.skipIf(!possible)(
  `page-locked memory is made while a model is loaded, off the thread and on its instance's device; without it slots are plain${missing}`,
  { timeout: limitMs + 10_000 },
  async () => {
    const environment = { LD_LIBRARY_PATH: fakeCudaFolder!, FAKE_CUDA_DEVICES: '2' }
    const { answer, code, hung, stderr } = await runFixture(
      'page-locked.mjs',
      'second device',
      [],
      environment,
    )
    expect({ code, hung }).toEqual({ code: 0, hung: false })
    expect(answer).toMatchObject({
      loaded: {
        acquired: [
          ['acquireAsync', 1],
          ['acquireAsync', 1],
        ],
        pinnedBytes: 2 ** 24,
        leases: 2,
      },
      right: true,
      absent: [
        ['acquireAsync', 7],
        ['acquireAsync', 7],
      ],
      rightWithout: true,
      left: { slabs: 0, leases: 0, pinnedBytes: 0 },
    })
    expect(stderr).toContain('page-locked memory is not available: the CUDA driver sees no device 7')
  },
)
