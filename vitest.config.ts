import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    // Tests that call onnxruntime-node themselves would have it look up a host outside this machine.
    // What they load is nobody's: it is neither kept on this machine nor tried aside, but where a test is about that.
    env: { ORT_DISABLE_TELEMETRY: '1', ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' },
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
})
