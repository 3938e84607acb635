import { describe, expect, it } from 'vitest'
import { loadNote, watchMachineLoad } from '../../src/tune/machine-load.ts'

describe('the load by other processes', () => {
  const before = { total: 1000, busy: 400, own: 100, cores: 4 }

  it('is a warning where they took more than a twentieth of the machine', () => {
    expect(loadNote(before, { total: 2000, busy: 1200, own: 400, cores: 4 })).toBe(
      'other processes used 2.0 of 4 cores during the measurements: stop them and run again with --fresh',
    )
  })

  it('is none where all that was busy were the own processes', () => {
    expect(loadNote(before, { total: 2000, busy: 1200, own: 890, cores: 4 })).toBeNull()
    expect(loadNote(before, before)).toBeNull()
  })

  it.runIf(process.platform === 'linux')('is read from the system', () => {
    const note = watchMachineLoad()
    expect(note() ?? '').toMatch(/^$|^other processes used \d+\.\d of \d+ cores/)
  })
})
