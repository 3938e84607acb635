import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Model, ModelConfig } from '../../src/index.ts'
import { optionalBias } from '../models/scheduling.ts'
import * as small from '../models/small.ts'
import { largestBatch } from '../support/against-plain.ts'
import { load, sharedEngine } from '../support/open.ts'
import { feedsOf, runPlain, type Sample, type Samples } from '../support/plain.ts'
import { expectSame } from '../support/same.ts'
import { floats, noise, sample } from '../support/samples.ts'
import { expectNoPattern, fillSlots } from '../support/slot-pattern.ts'

beforeEach(fillSlots)
afterEach(() => vi.restoreAllMocks())

const truth = (value: boolean): Sample => ({ type: 'bool', dims: [], data: Uint8Array.of(Number(value)) })
const whole = (value: number): Sample => ({ type: 'int64', dims: [], data: BigInt64Array.of(BigInt(value)) })
const large = 30_000

interface Case {
  readonly path: () => string
  /** One request; told from others by `seed`. */
  readonly request: (seed: number) => Samples
  readonly config?: Omit<ModelConfig, 'path'>
  /** What is right, where ONNX Runtime's own API does not take such a request. */
  readonly expected?: (samples: Samples) => Samples
  /** Whether requests share runs. Default true. */
  readonly joined?: boolean
}

const rows = (seed: number) => ({ x: noise([1 + (seed % 3), 4]) })
const cases: Record<string, Case> = {
  'an input of the graph': { path: small.inputAsOutput, request: rows },
  'an input of variable length': {
    path: small.variableInputAsOutput,
    request: (seed) => ({ x: noise([1 + (seed % 2), 5]) }),
  },
  'an input of many elements': {
    path: small.variableInputAsOutput,
    request: (seed) => ({ x: noise([1 + (seed % 2), large]) }),
  },
  'an input that is filled up': {
    path: small.variableInputAsOutput,
    request: (seed) => ({ x: noise([1 + (seed % 2), seed]) }),
    config: {
      padding: {
        input: 'x',
        dim: 1,
        sizes: [4, 8],
        outputs: [
          { name: 'x', dim: 1 },
          { name: 'y', dim: 1 },
        ],
      },
    },
  },
  strings: {
    path: () => small.identity('string', [2]),
    request: (seed) => ({ x: sample('string', [1 + (seed % 2), 2]) }),
  },
  constants: { path: small.constantOutputs, request: () => ({ x: noise([4]) }), joined: false },
  'other names of the input': { path: small.sharedMemory, request: rows },
  'other names of a value that is written': { path: small.valueOfThreeNames, request: rows },
  'a value from outside of a branch': {
    path: small.outerValues,
    request: (seed) => ({ first: truth(seed % 2 === 0), x: noise([4]) }),
    joined: false,
  },
  'what a loop without a turn leaves as it was': {
    path: small.doubledInLoop,
    request: (seed) => ({ times: whole([0, 2, 0, 1, 3][seed % 5]!), x: noise([4]) }),
    joined: false,
  },
  'an input, when another is absent': {
    path: optionalBias,
    request: rows,
    config: { optionalInputs: ['bias'] },
    expected: ({ x }) => ({ y: x! }),
  },
  nothing: { path: small.outputsWithoutElements, request: rows },
  'rows of nothing': {
    path: small.zeroSize,
    request: (seed) => ({ x: noise([seed % 3, 0]) }),
    joined: false,
  },
  'no rows': { path: small.inputAsOutput, request: (seed) => ({ x: noise([seed % 2, 4]) }) },
  'of a size that only the run tells': {
    path: small.nonZero,
    request: (seed) => ({ x: floats([1, 4], [seed % 2, 1, 0, seed]) }),
    joined: false,
  },
  'wider than declared': {
    path: () => small.lyingShape('hidden'),
    request: rows,
    config: { maxBatchSize: 32, checkRows: false },
  },
  'half-precision words': {
    path: () => small.identity('float16'),
    request: () => ({ x: sample('float16', [1, 4]) }),
  },
  'truth values': { path: () => small.identity('bool'), request: () => ({ x: sample('bool', [2, 4]) }) },
}

/** Sends them all at once and expects each to be answered with what ONNX Runtime answers it alone, and with nothing else. */
async function answers(
  model: Model,
  requests: readonly Samples[],
  expected?: Case['expected'],
): Promise<void> {
  const outputs = await Promise.all(requests.map((request) => model.infer(feedsOf(request))))
  for (const [at, own] of outputs.entries()) {
    expectNoPattern(own)
    expectSame(
      own,
      expected ? feedsOf(expected(requests[at]!)) : await runPlain(model.metadata.path, requests[at]!),
    )
  }
}

describe.each(['auto', 'copied'] as const)(
  'an output comes out of its own run, in staging memory of kind %s',
  (kind) => {
    const engine = sharedEngine({ staging: { kind } })

    it.each(Object.entries(cases))(
      'where it is %s',
      async (_, { path, request, config, expected, joined = true }) => {
        const model = await load(engine, path(), config)
        const requests = Array.from({ length: 6 }, (__, seed) => request(seed))
        for (const alone of requests) await answers(model, [alone], expected)
        const largestAlone = largestBatch(model)
        await answers(model, requests, expected)
        expect(largestBatch(model) > largestAlone).toBe(joined)
        await answers(model, [...requests, ...requests].reverse(), expected)
        for (const alone of requests) await answers(model, [alone], expected)
      },
    )

    it.each(['x', 'y'])('where only %s is wanted', async (output) => {
      const model = await load(engine, small.inputAsOutput())
      const samples = [{ x: noise([1, 4]) }, { x: noise([2, 4]) }]
      const outputs = await Promise.all(
        samples.map((request) => model.infer(feedsOf(request), { outputs: [output] })),
      )
      for (const [at, own] of outputs.entries())
        expectSame(own, await runPlain(model.metadata.path, samples[at]!, [output]))
    })
  },
)
