import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import * as reading from '../../src/onnx/row-proof/read-graph.ts'
import { answerTask } from '../../src/run/proof-task.ts'
import { namelessCell } from '../models/nameless-axes.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

afterEach(() => void vi.useRealTimers())

it('reads the graph of a model once for the questions of a while, whether it lies in a file or in memory', () => {
  vi.useFakeTimers()
  const read = vi.spyOn(reading, 'readGraph')
  const own = readFileSync(namelessCell())
  const path = join(temporaryFolder({ 'm.onnx': own }), 'm.onnx') // another test may have just asked for the other
  const bytes = new SharedArrayBuffer(own.length)
  new Uint8Array(bytes).set(own)
  /** Each message brings an object of its own over the same memory. */
  const ask = (model: string | SharedArrayBuffer, bytesId: number) => {
    read.mockClear()
    answerTask({ model: typeof model === 'string' ? model : structuredClone(model), bytesId, questions: [] })
    return read.mock.calls.length
  }
  expect([ask(path, 0), ask(path, 0)]).toEqual([1, 0])
  expect([ask(bytes, -7), ask(bytes, -7), ask(bytes, -8)]).toEqual([1, 0, 1])
  vi.advanceTimersByTime(6000)
  expect(ask(bytes, -8)).toBe(1)
})
