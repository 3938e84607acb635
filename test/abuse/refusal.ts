import { afterAll, beforeAll, expect } from 'vitest'
import { InferenceError } from '../../src/index.ts'
import { findDropped } from '../support/garbage.ts'

/** What a refused call has to say. */
export interface Refusal {
  /** Default `ERR_INVALID_ARG`. */
  readonly code?: string
  readonly argument: string
  readonly expected?: RegExp
  /** Compared only where given. */
  readonly received?: unknown
}

/** Checks that `error` is the typed error that `refusal` describes, with every field a program or a reader needs. */
export function expectRefusal(error: unknown, refusal: Refusal): void {
  const { code = 'ERR_INVALID_ARG', argument, expected = /./ } = refusal
  expect(error).toBeInstanceOf(InferenceError)
  const { message, ...fields } = error as InferenceError
  expect({ ...fields, message }).toMatchObject({
    code,
    argument,
    expected: expect.stringMatching(expected),
    message: expect.stringMatching(code === 'ERR_MODEL_LOAD' ? /./ : /received/), // or ONNX Runtime's own words
  })
  expect(fields).toHaveProperty('received')
  if ('received' in refusal) expect(fields.received).toEqual(refusal.received)
}

/** What `call` is rejected with; fails when it throws instead, or is not rejected. */
export async function rejectionOf(call: () => Promise<unknown>): Promise<unknown> {
  const promise = call()
  expect(promise).toBeInstanceOf(Promise)
  return promise.then(
    (value) => expect.fail(`not refused, but answered with ${String(value)}`),
    (error: unknown) => error,
  )
}

/** Has the tests of this file fail when the process warns of anything. */
export function expectNoWarnings(): void {
  const warnings: Error[] = []
  const listener = (warning: Error) => warnings.push(warning)
  beforeAll(async () => {
    await findDropped()
    process.on('warning', listener)
  })
  afterAll(async () => {
    await new Promise(setImmediate) // warnings are emitted in the next turn
    process.off('warning', listener)
    expect(warnings).toEqual([])
  })
}
