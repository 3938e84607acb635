import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { completionHub } from '../../src/run/executors/native/native-executor.ts'
import { openAhead } from '../../src/run/executors/native/session-opener.ts'
import type { NativeBinding } from '../../src/native/native-binding.ts'

const answer = 1 // of the kinds of completions

/** An addon of which threads open what they are asked to, one after the other, when the test says so. */
function standIn() {
  const loops: StandInLoop[] = []
  const completions: number[][] = []
  let wake!: () => void
  class StandInLoop {
    readonly id = loops.push(this)
    readonly asked: number[] = []
    readonly cancelled: number[] = []
    stopped = false
    start(): boolean {
      return true
    }
    open(questionId: number): void {
      this.asked.push(questionId)
    }
    close(): void {}
    enterPages(): void {}
    cancelQuestion(questionId: number): boolean {
      return this.cancelled.push(questionId) > 0
    }
    stop(): boolean {
      this.stopped = true
      return false
    }
    dispose(): void {}
    /** The first that was asked for is done. */
    done(): void {
      completions.push([this.id, answer, this.asked.shift()!, 0, 0, 0, 0])
      wake()
    }
  }
  const binding = {
    RunLoop: StandInLoop,
    CompletionHub: class {
      readonly #into: Float64Array
      constructor(onWake: () => void, into: Float64Array) {
        wake = onWake
        this.#into = into
      }
      take(): number {
        const taken = completions.splice(0)
        taken.forEach((numbers, index) => this.#into.set(numbers, index * numbers.length))
        return taken.length
      }
    },
    nowMs: () => 0,
    noteExit() {},
  } as unknown as NativeBinding
  const open = (model: string) => openAhead(completionHub(binding), 0, model, [])!
  return { loops, open }
}

const outcomeOf = (opened: Promise<void>) =>
  opened.then(
    () => 'opened',
    (error: Error) => error.message,
  )

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

it('an opening that is given up while it waits behind another leaves that alone', async () => {
  const { loops, open } = standIn()
  const first = ['a', 'b', 'c', 'd'].map(open) // on a thread each
  const last = open('e')
  expect(loops.map(({ asked }) => asked.length)).toEqual([2, 1, 1, 1])
  last.release()
  expect(await outcomeOf(last.opened)).toBe('Its opening was cancelled.')
  expect(loops[0]!.cancelled).toEqual([2])
  vi.advanceTimersByTime(60_000)
  expect(loops.some(({ stopped }) => stopped)).toBe(false)
  for (const loop of loops) loop.done()
  expect(await Promise.all(first.map(({ opened }) => outcomeOf(opened)))).toEqual([
    'opened',
    'opened',
    'opened',
    'opened',
  ])
})

it('what waits behind an opening that is given up and does not end is left to those who asked for it', async () => {
  const { loops, open } = standIn()
  const [endless] = ['a', 'b', 'c', 'd'].map(open)
  const behind = open('e')
  endless!.release()
  vi.advanceTimersByTime(1000)
  expect(await outcomeOf(endless!.opened)).toBe('Its opening did not end.')
  expect(await outcomeOf(behind.opened)).toBe('opened')
  expect(loops[0]!.stopped).toBe(true)
  open('f')
  expect(loops).toHaveLength(5)
})
