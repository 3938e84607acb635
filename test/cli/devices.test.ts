import { describe, expect, it } from 'vitest'
import type { DeviceReport } from '../../src/cli/device-report.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { availableCores, availableMemory } from '../../src/base/available-resources.ts'
import { root, runScript, zerohop, zerohopWithoutAddon } from './run.ts'

describe('zerohop devices', () => {
  it('shows what an engine has in use, and why', async () => {
    const { code, stdout, stderr } = await zerohop('devices')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(new RegExp(`^cores +${availableCores().usable}\\b`))
    for (const row of [
      'memory',
      'GPUs',
      'executor',
      'ONNX Runtime',
      'Node.js',
      'addon',
      'staging',
      'providers',
      'telemetry',
    ])
      expect(stdout).toMatch(new RegExp(`^${row} +\\S`, 'm'))
  })

  it.skipIf(openNativeOrt().binding === null)(
    'has the providers that are built in, and has tried them',
    async () => {
      const report = JSON.parse((await zerohop('devices', '--json')).stdout) as DeviceReport
      expect(report.executor).toMatchObject({ kind: 'native', reason: 'the default' })
      expect(report.providers.find(({ name }) => name === 'cpu')).toMatchObject({ available: true })
      expect(report.providers.filter(({ available }) => available === null)).toEqual([])
      expect(report.staging).toEqual({ kind: expect.any(String), reason: expect.any(String) })
      expect(report.cores).toEqual(availableCores())
      expect(report.memory).toEqual(availableMemory())
      expect(report).not.toHaveProperty('error')
    },
  )

  it('works where the addon is missing', async () => {
    const { code, stdout, stderr } = await zerohopWithoutAddon('devices', '--json')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(JSON.parse(stdout)).toMatchObject({
      executor: { kind: 'binding' },
      native: { available: false },
      cuda: { available: false },
      providers: expect.arrayContaining([
        { name: 'cpu', source: 'built-in', available: true, reason: 'always there', devices: [] },
      ]),
    })
  })

  it('says why nothing can be served', async () => {
    const env = {
      ...process.env,
      ZEROHOP_NATIVE: 'off',
      NODE_OPTIONS: `--import ${root}test/cli/fixtures/without-onnxruntime.mjs`,
    }
    const { code, stdout, stderr } = await runScript(`${root}dist/cli/main.js`, ['devices', '--json'], env)
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: 'ERR_NATIVE_LOAD' }, cores: availableCores() })
    expect(stderr).toMatch(/^ERR_NATIVE_LOAD: [^\n]*onnxruntime-node[^\n]*\n$/)
  })
})
