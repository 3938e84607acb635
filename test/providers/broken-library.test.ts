import { execFile } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it, onTestFinished } from 'vitest'
import { openNativeOrt } from '../../src/run/executors/native/native-ort.ts'
import { loadBinding } from '../../src/native/addon.ts'
import { identity } from '../models/small.ts'
import { compile } from './libraries.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const fixture = fileURLToPath(new URL('fixtures/broken-library.mjs', import.meta.url))
const isPossible = process.platform === 'linux' && openNativeOrt().binding !== null

/** This package in a folder of its own, beside an onnxruntime-node whose CUDA provider is no library. */
function brokenPackage(): string {
  mkdirSync(join(root, '.cache'), { recursive: true })
  const folder = mkdtempSync(join(root, '.cache/broken-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const theirs = dirname(createRequire(import.meta.url).resolve('onnxruntime-node/package.json'))
  const ours = join(folder, 'node_modules/onnxruntime-node')
  const libraries = join('bin/napi-v6', process.platform, process.arch)
  mkdirSync(join(ours, libraries), { recursive: true })
  for (const part of ['package.json', 'dist'])
    cpSync(join(theirs, part), join(ours, part), { recursive: true })
  for (const file of readdirSync(join(theirs, libraries)))
    copyFileSync(join(theirs, libraries, file), join(ours, libraries, file))
  writeFileSync(join(ours, libraries, 'libonnxruntime_providers_cuda.so'), 'no library')
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  for (const name of Object.keys(dependencies))
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name))
  for (const part of ['package.json', 'dist'])
    cpSync(join(root, part), join(folder, part), { recursive: true })
  return folder
}

it.skipIf(!isPossible)(
  'a provider whose library cannot be loaded is found out when a model asks for it, and left out',
  async ({ skip }) => {
    const driver =
      compile(readFileSync(join(root, 'native/test/fake_cuda.c'), 'utf8'), [`-I${root}native/test`]) ??
      skip('no C compiler')
    const folder = brokenPackage()
    copyFileSync(driver, join(folder, 'libcuda.so.1'))
    const env = { ...process.env, LD_LIBRARY_PATH: folder, ZEROHOP_NATIVE: loadBinding().path! }
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [fixture, join(folder, 'dist/index.js'), identity('float32')],
      { env },
    )
    const answer = {
      driver: true,
      used: [
        ['no cuda', 'cpu'],
        ['no tensorrt', 'no cuda', 'cpu'],
        ['no cuda', 'cpu'],
        ['no cuda', 'cpu'],
      ],
      missing: 'there is no GPU 7',
      sums: [10, 10, 10, 10],
      refusal: {
        code: 'ERR_MODEL_LOAD',
        message: expect.stringMatching(/cuda: .*Failed to load shared library\. Kind 'auto'/),
      },
      available: expect.objectContaining({ cpu: true, cuda: false, tensorrt: false }),
      warnings: expect.arrayContaining(
        ['cuda', 'tensorrt'].map((name) =>
          expect.stringContaining(`execution provider '${name}' cannot be used`),
        ),
      ),
    }
    const answers = JSON.parse(stdout) as Record<'native' | 'binding', { warnings: string[] }>
    expect(answers).toEqual({ native: answer, binding: answer })
    for (const { warnings } of Object.values(answers)) expect(warnings).toHaveLength(2)
  },
)
