import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

const variable = 'ORT_DISABLE_TELEMETRY'

let instances = 0

/** The module as a process finds it that has started no worker yet. */
function fresh(): Promise<typeof import('../../src/run/telemetry.ts')> {
  return import(/* @vite-ignore */ `../../src/run/telemetry.ts?${++instances}`)
}

beforeEach(() => void vi.stubEnv(variable, undefined))
afterEach(() => void vi.unstubAllEnvs())

describe("ONNX Runtime's telemetry", () => {
  it('is off by default', async () => {
    const { switchOffTelemetry, telemetryState } = await fresh()
    const state = { off: true, reason: 'set by zerohop: ORT_DISABLE_TELEMETRY=1' }
    expect(telemetryState(undefined)).toEqual(state)
    switchOffTelemetry(undefined)
    expect(process.env[variable]).toBe('1')
    expect(telemetryState(undefined)).toEqual(state)
  })

  it.each([
    ['0', false],
    ['', false],
    ['1', true],
    ['true', true],
  ])("is left to the environment's word: '%s'", async (value, off) => {
    vi.stubEnv(variable, value)
    const { switchOffTelemetry, telemetryState } = await fresh()
    switchOffTelemetry({ [variable]: '1' })
    expect(process.env[variable]).toBe(value)
    expect(telemetryState(undefined)).toEqual({ off, reason: `the environment says ${variable}=${value}` })
  })

  it('is as workers.env says where the environment has no word on it', async () => {
    const { switchOffTelemetry, telemetryState } = await fresh()
    const env = { [variable]: '0' }
    const state = { off: false, reason: `workers.env says ${variable}=0` }
    expect(telemetryState(env)).toEqual(state)
    switchOffTelemetry(env)
    expect(process.env[variable]).toBe('0')
    expect(telemetryState(env)).toEqual(state)
  })

  it('is off where workers.env has no word on it either', async () => {
    const { switchOffTelemetry } = await fresh()
    switchOffTelemetry({ PATH: '/bin' })
    expect(process.env[variable]).toBe('1')
  })
})
