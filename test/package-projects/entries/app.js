// All entry points have the same classes and know the same engines: an error of one is an error of the others, an engine can be
// given to any, and there is one limit of decoders.
import { deepEqual, equal, rejects, throws } from 'node:assert/strict'
import { createServer } from 'node:http'
import { InferenceEngine, InferenceError } from 'zerohop'
import { decodeImage, imageConcurrency } from 'zerohop/image'
import * as internals from 'zerohop/internals'
import { kserve } from 'zerohop/kserve'
import { connect } from 'zerohop/processes'

equal(internals.InferenceError, InferenceError)
const isTyped = (error) => error instanceof InferenceError
await rejects(decodeImage('no image'), isTyped)
await rejects(connect('/nowhere/socket', { timeoutMs: 20 }), isTyped)
throws(() => kserve({}), isTyped)
equal(imageConcurrency(), imageConcurrency())

const engine = new InferenceEngine()
await engine.load('digits', { path: process.env.DIGITS_MODEL })
const server = createServer(kserve(engine)).listen(0, '127.0.0.1')
await new Promise((resolve) => server.once('listening', resolve))
const answer = await fetch(`http://127.0.0.1:${server.address().port}/v2/repository/index`, { method: 'POST' })
deepEqual(
  (await answer.json()).map(({ name, state }) => [name, state]),
  [['digits', 'READY']],
)
server.close()
await engine.close()
