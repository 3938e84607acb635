import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { availableCores, availableMemory } from '../../src/base/available-resources.ts'
import type { DeviceReport } from '../../src/cli/device-report.ts'
import { loadBinding } from '../../src/native/addon.ts'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { runsInPlace } from '../support/native.ts'
import { openVinoPlugin } from '../providers/libraries.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'
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
      expect(report.executor).toMatchObject(
        runsInPlace ? { kind: 'native', reason: 'the default' } : { kind: 'binding' },
      )
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

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

/** Runs `zerohop providers` in a folder of its own. */
async function providers(
  line: string[],
  { cwd = temporaryFolder({}), env = {} }: { cwd?: string; env?: Record<string, string> } = {},
) {
  const options = { cwd, env: { ...process.env, VIRTUAL_ENV: '', PATH: '', ...env } } // without Python
  try {
    return {
      code: 0,
      ...(await promisify(execFile)(process.execPath, [main, 'providers', ...line], options)),
    }
  } catch (error) {
    return error as { code: number; stdout: string; stderr: string }
  }
}

describe.skipIf(openNativeOrt().binding === null)('zerohop providers', () => {
  it('lists what is built in, and has tried it', async () => {
    const { code, stdout } = await providers([])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^ONNX Runtime 1\.\d+\.\d+\n/)
    expect(stdout).toContain('cpu (built-in): yes, always there')
    expect(stdout).not.toContain('perhaps')
  })

  it('says how to install a plugin when it finds none', async () => {
    const { code, stdout } = await providers(['--find'])
    expect(code).toBe(0)
    expect(stdout).toContain('.venv/bin/pip install onnxruntime-ep-openvino')
  })

  it.each([
    ['in node_modules above', 'node_modules/onnxruntime-ep-example/bin', 'libonnxruntime_ep_example.so', {}],
    [
      'in .venv',
      '.venv/lib/python3.12/site-packages/onnxruntime_ep_example',
      'libonnxruntime_providers_example_plugin.so',
      {},
    ],
    [
      'in the virtual environment that is active',
      'env/Lib/site-packages/onnxruntime_ep_example',
      'onnxruntime_providers_example_plugin.dll',
      { VIRTUAL_ENV: 'env' },
    ],
  ])('finds what is installed %s, and says why it cannot be used', async (_, folder, file, env) => {
    const cwd = temporaryFolder({})
    mkdirSync(join(cwd, folder), { recursive: true })
    copyFileSync(loadBinding().path!, join(cwd, folder, file))
    const { code, stdout } = await providers(['--find'], { cwd, env })
    expect(code).toBe(0)
    expect(stdout).toMatch(/example \(plugin\): no, .*CreateEpFactories/)
    expect(stdout).toContain(join(folder, file))
    expect(stdout).toContain('None of the installed plugins can be used here.')
  })

  it('prints JSON, of a plugin that is named as well', async () => {
    const { stdout } = await providers(['--json', '--plugin', 'example=absent.so'])
    const found = JSON.parse(stdout) as { name: string; available: boolean; reason: string }[]
    expect(found.find(({ name }) => name === 'cpu')).toMatchObject({ source: 'built-in', available: true })
    expect(found.at(-1)).toMatchObject({
      name: 'example',
      source: 'plugin',
      available: false,
      reason: expect.stringContaining('no such library'),
    })
  })

  it('refuses a plugin without a name', async () => {
    expect(await providers(['--plugin', 'absent.so'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('a name and a path'),
    })
  })

  it('says that it takes the addon', async () => {
    expect(await providers([], { env: { ZEROHOP_NATIVE: 'off' } })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('ERR_NATIVE_LOAD'),
    })
  })

  const { library, missing } = openVinoPlugin()
  it.skipIf(library === null)(`shows the devices of a plugin${missing}`, async () => {
    const { stdout } = await providers(['--plugin', `openvino=${library}`])
    expect(stdout).toMatch(/openvino \(plugin\): yes, it ran a model in a separate process\n.*\n {4}cpu: /)
  })
})
