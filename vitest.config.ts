import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    // Tests that call onnxruntime-node themselves would have it look up a host outside this machine.
    env: { ORT_DISABLE_TELEMETRY: '1' },
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
})
