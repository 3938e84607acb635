// For test files that share a process: what one has put in place of the clock or of a function, or drawn, is not there for the next.
import { afterAll, vi } from 'vitest'
import { drawAnew } from './samples.ts'

afterAll(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
  vi.unstubAllGlobals()
  vi.unstubAllEnvs()
  drawAnew()
})
