import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import * as small from '../models/small.ts'
import { simple, simpleIdentity, simpleSequence, simpleString } from '../models/triton-examples.ts'
import { ownEngine } from '../support/open.ts'
import { Serving } from './serving.ts'

const python = fileURLToPath(new URL('../../.cache/clients/tritonclient/bin/python', import.meta.url))
const noClient = existsSync(python)
  ? ''
  : " (skipped: Triton's client is not installed; node scripts/clients/install-tritonclient.mjs does that)"
// Strings with NUL characters take the native executor.
const missing =
  openNativeOrt().binding === null || process.env.ZEROHOP_EXECUTOR === 'binding'
    ? ' (skipped: no native executor)'
    : noClient

describe.skipIf(missing !== '')(`Triton's client for Python${missing}`, () => {
  it('makes the calls of its examples as it makes them of Triton', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kserve-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    mkdirSync(join(folder, 'simple/1'), { recursive: true })
    copyFileSync(simple(), join(folder, 'simple/1/model.onnx'))
    writeFileSync(join(folder, 'simple/config.pbtxt'), 'backend: "onnxruntime"\nmax_batch_size: 8\n')
    const engine = ownEngine()
    await engine.loadRepository(folder)
    await engine.load('simple_string', { path: simpleString() })
    await engine.load('simple_identity', { path: simpleIdentity() })
    await engine.load('simple_sequence', {
      path: simpleSequence(),
      maxBatchSize: 4,
      sequence: { controls: [{ input: 'START', kind: 'start' }] },
    })
    for (const type of ['bool', 'int8', 'uint16', 'int64', 'float16', 'float32', 'float64'] as const)
      await engine.load(`identity_${type}`, { path: small.identity(type) })
    const { port } = await Serving.of(engine, { serverName: 'triton', modelControl: true })
    const calls = fileURLToPath(new URL('./triton_client_calls.py', import.meta.url))
    const { stdout, stderr } = await promisify(execFile)(python, [calls, `127.0.0.1:${port}`], {
      timeout: 50_000,
    })
    expect(stderr).toBe('')
    expect(stdout.trim().split(/\r?\n/)).toEqual([
      'health_and_metadata',
      'infer',
      'strings',
      'sequences',
      'all_types',
      'classification',
      'shared_memory',
      'async_infer',
      'aio_infer',
      'model_control',
    ])
  })
})
