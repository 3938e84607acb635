// Full: it takes minutes.
import { describe, expect, it } from 'vitest'
import { runFixture } from '../process/child.ts'
import { chaosModels } from './chaos-models.ts'

/** Another one each day; a failure is tried again with the one it prints. */
const seed = Number(process.env.CHAOS_SEED ?? Math.floor(Date.now() / 86_400_000))

interface Found {
  readonly faults: readonly string[]
  /** How often each end was met. */
  readonly ends: Readonly<Record<string, number>>
}

// Threads of the addon do not die.
const lost = { binding: ['infer: ERR_INSTANCE_CRASHED'], native: [] }

describe.each([
  ['binding', 60],
  ['native', 30],
] as const)(`chaos with CHAOS_SEED=${seed} and the executor %s`, (executor, usualSeconds) => {
  const seconds = Number(process.env.CHAOS_SECONDS ?? usualSeconds)
  it(
    `brings no wrong answer, nothing that hangs, no untyped error and no exit of its own in ${seconds} s`,
    { timeout: (seconds + 120) * 1000 },
    async () => {
      const environment = {
        CHAOS_SEED: String(seed),
        CHAOS_SECONDS: String(seconds),
        CHAOS_MODELS: JSON.stringify(chaosModels()),
        ZEROHOP_EXECUTOR: executor,
      }
      const ending = await runFixture(
        '../../chaos/fixtures/chaos.mjs',
        'all',
        [],
        environment,
        (seconds + 90) * 1000,
      )
      const found = ending.answer as Found | undefined
      console.log(`CHAOS_SEED=${seed} ZEROHOP_EXECUTOR=${executor}`, found?.ends)
      expect({ ...ending, answer: found?.faults, stderr: '' }).toEqual({
        code: 0,
        signal: null,
        hung: false,
        answer: [],
        stderr: '',
      })
      // It would be no chaos without these.
      const met = Object.keys(found!.ends)
      expect(met).toEqual(
        expect.arrayContaining(['infer: done', ...lost[executor], 'load: done', 'unload: done', 'aborted']),
      )
    },
  )
})
