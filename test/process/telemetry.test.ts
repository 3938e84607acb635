import { describe, it } from 'vitest'
import { endsEachTime, testTimeoutMs } from './child.ts'

describe('ONNX Runtime in a worker', () => {
  it.each(['by default', 'workers with an environment of their own'])(
    'leaves no log and no database of its telemetry: %s',
    { timeout: testTimeoutMs },
    (scenario) => endsEachTime('telemetry.mjs', scenario, { answer: [true, true, []] }),
  )
})
