import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { InferenceSession } from 'onnxruntime-common'
import { describe, expect, it } from 'vitest'
import { resolveConfig } from '../../src/options/model-config.ts'
import type { InferenceError } from '../../src/errors.ts'
import { sessionOptions, type SessionRuntime } from '../../src/options/session-options.ts'

const placement = { kind: 'cpu', gpu: 0, intraOpNumThreads: 2 } as const
const runtime: SessionRuntime = { ortVersion: '1.30.0', useProvider: (entry) => entry }
const extraOf = (extra: unknown, ortVersion = '1.30.0') =>
  sessionOptions(resolveConfig('m', { path: 'm.onnx', sessionOptions: { extra } }), placement, {
    ...runtime,
    ortVersion,
  }).extra
const spinning = 'session.intra_op.allow_spinning'
const spinUs = 'session.intra_op.spin_duration_us'

describe('sessionOptions.extra', () => {
  it.each([
    ['in groups', { session: { intra_op: { allow_spinning: '1' } } }],
    ['by its full name', { [spinning]: '1' }],
    ['in part as one, in part as the other', { 'session.intra_op': { allow_spinning: '1' } }],
    ['twice with the same value', { [spinning]: '1', session: { intra_op: { allow_spinning: '1' } } }],
  ])('overrides a default of this library when it is given %s', (_, extra) => {
    expect(extraOf(extra)).toEqual({ [spinning]: '1' })
  })

  it('keeps the default beside other entries', () => {
    expect(extraOf({ session: { dynamic_block_base: '4' }, 'ep.context_enable': '0' })).toEqual({
      [spinning]: '1',
      [spinUs]: '20',
      'session.dynamic_block_base': '4',
      'ep.context_enable': '0',
    })
    expect(extraOf({ [spinUs]: '5' })).toEqual({ [spinning]: '1', [spinUs]: '5' })
  })

  it.each(['1.25.1', '0.9', 'unknown'])(
    'lets no threads spin where ONNX Runtime (%s) would not know for how long',
    (version) => {
      expect(extraOf({}, version)).toEqual({ [spinning]: '0' })
    },
  )

  it.each(['1.26.0', '1.30.0', '2.0.0'])('lets them spin for a moment where it does (%s)', (version) => {
    expect(extraOf({}, version)).toEqual({ [spinning]: '1', [spinUs]: '20' })
  })

  it('names an entry that ONNX Runtime knows: of others it says nothing', () => {
    const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }
    const folder = fileURLToPath(
      new URL(
        `../../node_modules/onnxruntime-node/bin/napi-v6/${process.platform}/${process.arch}/`,
        import.meta.url,
      ),
    )
    const libraries = readdirSync(folder).filter((file) =>
      /^(?:lib)?onnxruntime\.(?:so|dll|[\d.]*dylib)/.test(file),
    )
    const isKnown = libraries.some((file) => readFileSync(join(folder, file)).includes(spinUs))
    expect(isKnown).toBe(spinUs in extraOf({}, version)!)
  })

  it('is refused when one entry has two values, in two forms', () => {
    for (const extra of [
      { [spinning]: '1', session: { intra_op: { allow_spinning: '0' } } },
      { session: { 'intra_op.allow_spinning': '0' }, [spinning]: '1' },
    ]) {
      expect(() => extraOf(extra)).toThrow(
        expect.objectContaining({
          code: 'ERR_MODEL_CONFIG',
          argument: `sessionOptions.extra.${spinning}`,
          expected: expect.stringMatching(/^one value; it is also given as '[01]'$/),
        }),
      )
    }
  })

  it('is refused when it has no end', () => {
    const cyclic: Record<string, unknown> = {}
    cyclic['again'] = cyclic
    expect(() => extraOf(cyclic)).toThrow(
      expect.objectContaining({ code: 'ERR_MODEL_CONFIG', expected: 'groups at most 16 deep' }),
    )
  })
})

describe('sessionOptions', () => {
  const refusal = (options: object) => {
    try {
      resolveConfig('m', { path: 'm.onnx', sessionOptions: options })
    } catch (error) {
      return error as InferenceError
    }
    return expect.fail('not refused')
  }

  it.each([
    'intraOpThreads',
    'graphoptimizationlevel',
    'junk',
    'session.intra_op.allow_spinning',
    '',
    'x'.repeat(1_000_000),
    'constructor',
    '__proto__',
  ])('are refused when they have an option that ONNX Runtime would ignore: %.20s', (name) => {
    const { code, argument, message, ...error } = refusal(Object.fromEntries([[name, 1]]))
    expect({ code, expected: error.expected }).toEqual({
      code: 'ERR_MODEL_CONFIG',
      expected: expect.stringMatching(/^one of intraOpNumThreads, .*, extra$/),
    })
    expect(argument).toContain(`sessionOptions.${name.slice(0, 20)}`)
    expect(message.length).toBeLessThan(1000)
    expect(message.endsWith('belongs into sessionOptions.extra')).toBe(name.includes('.'))
  })

  it('may be every one that ONNX Runtime declares', () => {
    type Option = Exclude<keyof InferenceSession.SessionOptions, 'executionProviders'>
    const all: Record<Option, unknown> = {
      intraOpNumThreads: 1,
      interOpNumThreads: 1,
      freeDimensionOverrides: { N: 1 },
      graphOptimizationLevel: 'all',
      enableCpuMemArena: true,
      enableMemPattern: true,
      executionMode: 'parallel',
      optimizedModelFilePath: 'o.onnx',
      enableProfiling: false,
      profileFilePrefix: 'p',
      logId: 'l',
      logSeverityLevel: 4,
      logVerbosityLevel: 0,
      preferredOutputLocation: 'cpu',
      enableGraphCapture: false,
      externalData: [],
      extra: {},
    }
    expect(resolveConfig('m', { path: 'm.onnx', sessionOptions: all }).sessionOptions).toEqual(all)
  })
})

describe('numbers of threads', () => {
  it.each([1025, 2 ** 31, -1, 1.5, Number.NaN, '2', null])('are refused that no machine has: %s', (count) => {
    for (const name of ['intraOpNumThreads', 'interOpNumThreads']) {
      expect(() => resolveConfig('m', { path: 'm.onnx', sessionOptions: { [name]: count } })).toThrow(
        expect.objectContaining({
          code: 'ERR_MODEL_CONFIG',
          argument: `sessionOptions.${name}`,
          expected: 'a whole number from 0 to 1024',
        }),
      )
    }
  })

  it('may be left to ONNX Runtime', () => {
    const config = resolveConfig('m', { path: 'm.onnx', sessionOptions: { intraOpNumThreads: 0 } })
    expect(sessionOptions(config, placement, runtime).intraOpNumThreads).toBe(0)
  })
})
