import type { InferOptions } from 'zerohop'
import { checkAnswer } from './input/expected-answer.ts'
import type { Send } from './load/load.ts'
import type { PerfModel } from './perf-target.ts'

/**
 * Sends requests to a model.
 *
 * @param signal withdraws them all; `null` for none, which costs nothing.
 */
export function sender(model: PerfModel, signal: AbortSignal | null): Send {
  const withSignal: InferOptions | undefined = signal === null ? undefined : { signal }
  return ({ feeds, options, expected }) => {
    const all = signal === null ? options : options === undefined ? withSignal : { ...options, signal }
    const answer = all === undefined ? model.infer(feeds) : model.infer(feeds, all)
    return expected === undefined ? answer : answer.then((outputs) => checkAnswer(outputs, expected))
  }
}
