import { expect, it } from 'vitest'
import type { InferRequest } from '../../src/request/infer-request.ts'
import { RequestErrors } from '../../src/schedule/failures.ts'
import * as small from '../models/small.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import { ownEngine } from '../support/open.ts'

const request = { enqueuedAtMs: 10, timeoutAtMs: 60, requestId: undefined } as InferRequest
const once = new RequestErrors('m', false)
const twice = new RequestErrors('m', true)

it.each([
  [
    'that timed out',
    once.timedOut(request),
    'ERR_TIMEOUT',
    "The request waited in the queue of model 'm' longer than its 50 ms; give it more time (timeoutMs, or defaultTimeoutMs of its level), lower maxQueueDelayMs, or send less at once.",
  ],
  [
    'whose worker died',
    once.crashed(request, 'it exited'),
    'ERR_INSTANCE_CRASHED',
    "The request was lost with the worker of model 'm': it exited; send it again, or load the model with rerunAfterCrash: true.",
  ],
  [
    'whose worker died twice',
    twice.crashed(request, 'it exited'),
    'ERR_INSTANCE_CRASHED',
    "The request was lost with the worker of model 'm': it exited; it was run again by itself, and seems to be what workers die of.",
  ],
  [
    'whose model was given up',
    once.givenUp(request, 'it exited'),
    'ERR_INSTANCE_CRASHED',
    "The request was lost with the worker of model 'm': it exited; load the model again.",
  ],
])('a request %s is told what to do next', (_, error, code, message) => {
  expect(error).toMatchObject({ code, message })
})

it('a warm-up sample that does not fit the model is named', async () => {
  const warmup = [{ feeds: { x: new Float32Array(4) } }, { feeds: { x: new Float32Array(3) } }]
  const error = await rejectionOf(() => ownEngine().load('m', { path: small.identity('float32'), warmup }))
  const message =
    "warmup[1].feeds: input 'x' of model 'm': expected 4 elements for one row of shape [N, 4], received 3 (number)"
  expect(error).toMatchObject({
    code: 'ERR_MODEL_CONFIG',
    argument: 'warmup[1].feeds',
    model: 'm',
    message,
    cause: { code: 'ERR_INVALID_ARG' },
  })
})
