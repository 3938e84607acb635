import { describe, expect, it } from 'vitest'
import { chooseDevice, deviceNames, knownProvider } from '../../src/run/provider-plugins.ts'
import type { NativeProviderDevice } from '../../src/native/native-binding.ts'

const device = (provider: string, kind: 'cpu' | 'gpu' | 'npu', metadata = {}): NativeProviderDevice => ({
  provider,
  kind,
  metadata,
  providerVendor: '',
  hardwareVendor: '',
})
const cpu = device('OpenVINOExecutionProvider', 'cpu', { ov_device: 'CPU' })
const auto = device('OpenVINOExecutionProvider.AUTO', 'cpu', { ov_device: 'CPU', ov_meta_device: 'AUTO' })
const gpus = [device('OpenVINOExecutionProvider', 'gpu'), device('OpenVINOExecutionProvider', 'gpu')]
const all = [cpu, gpus[0]!, auto, gpus[1]!]

describe('the device of a plugin', () => {
  it('is the first it offers, or one of a kind', () => {
    expect(chooseDevice(all, undefined, 0)).toBe(0)
    expect(chooseDevice(all, 'GPU', 0)).toBe(1)
    expect(chooseDevice(all, 'gpu', 1)).toBe(3)
    expect(chooseDevice(all, 'auto', 0)).toBe(2)
    expect(chooseDevice(all, 'gpu', 2)).toBe(-1)
    expect(chooseDevice(all, 'npu', 0)).toBe(-1)
    expect(chooseDevice([], undefined, 0)).toBe(-1)
    expect(all.flatMap(deviceNames)).toEqual(['cpu', 'gpu', 'auto', 'gpu'])
  })
})

describe("OpenVINO's options", () => {
  const entries = (options: Record<string, unknown>, precision?: 'float32', of = cpu) =>
    knownProvider(of).entries(of, precision, options)

  it('are none when none are given', () => {
    expect(entries({})).toEqual({})
  })

  it('go where OpenVINO reads them', () => {
    const { load_config: config, ...others } = entries(
      { num_streams: 2, cache_dir: '/cache', ENABLE_CPU_PINNING: false, reshape_input: 'x[1,4]' },
      'float32',
    )
    expect(others).toEqual({ reshape_input: 'x[1,4]' })
    expect(JSON.parse(config!)).toEqual({
      CPU: {
        INFERENCE_PRECISION_HINT: 'f32',
        NUM_STREAMS: '2',
        CACHE_DIR: '/cache',
        ENABLE_CPU_PINNING: 'false',
      },
    })
    expect(JSON.parse(entries({ num_streams: 2 }, undefined, auto)['load_config']!)).toEqual({
      AUTO: { NUM_STREAMS: '2' },
    })
  })

  it('are joined with a load_config, which has the last word', () => {
    for (const given of [
      { CPU: { NUM_STREAMS: '3' }, GPU: { A: 1 } },
      '{"CPU":{"NUM_STREAMS":"3"},"GPU":{"A":1}}',
    ]) {
      const { load_config: config } = entries({ num_streams: 2, load_config: given }, 'float32')
      expect(JSON.parse(config!)).toEqual({
        CPU: { INFERENCE_PRECISION_HINT: 'f32', NUM_STREAMS: '3' },
        GPU: { A: 1 },
      })
    }
  })

  it('are refused where they are nothing that can be passed on', () => {
    expect(() => entries({ num_streams: {} })).toThrow('num_streams: expected text, a number or a boolean')
    for (const given of ['{bad', [], 1, null])
      expect(() => entries({ load_config: given })).toThrow('load_config: expected an object of devices')
  })
})

describe('the options of a provider of which nothing is known', () => {
  const other = device('SomeExecutionProvider', 'gpu')

  it('are passed on as text', () => {
    expect(knownProvider(other).entries(other, undefined, { a: 1, b: true, c: 'x' })).toEqual({
      a: '1',
      b: 'true',
      c: 'x',
    })
    expect(knownProvider(other).sharable).toBe(false)
  })

  it('leave each session to one thread, and all of WebGPU, whose device they share', () => {
    expect(knownProvider(other)).toMatchObject({ sharable: false, oneThread: false })
    expect(knownProvider(device('WebGpuExecutionProvider', 'gpu'))).toMatchObject({
      sharable: false,
      oneThread: true,
    })
    expect(knownProvider(auto)).toMatchObject({ sharable: true, oneThread: false })
  })

  it('do not include a precision', () => {
    expect(() => knownProvider(other).entries(other, 'float32', {})).toThrow(
      'precision: how SomeExecutionProvider is told is not known here',
    )
  })
})
