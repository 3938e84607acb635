import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compile } from '../../test/providers/libraries.ts'
import { TrialSkipped } from '../trial.ts'
import { built } from './build.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The environment of a process that finds libraries in a folder first. */
function librariesFrom(folder: string): NodeJS.ProcessEnv {
  const { LD_LIBRARY_PATH: others } = process.env
  return { LD_LIBRARY_PATH: others === undefined ? folder : `${folder}${delimiter}${others}` }
}

/** The CUDA driver of the C++ tests, for processes with this environment: its device is memory of the process. */
export function cudaDriver(): NodeJS.ProcessEnv {
  if (process.platform !== 'linux')
    throw new TrialSkipped(' (skipped: there is no CUDA driver, and its stand-in is for Linux)')
  return librariesFrom(built('libcuda.so.1', ['native/test/fake_cuda.c'], ['-shared', '-fPIC']))
}

/** Vulkan in software, as `scripts/providers/install-webgpu.mjs` installs it, for processes with this environment; `null` without. */
export function vulkanDriver(): NodeJS.ProcessEnv | null {
  const folder = join(root, '.cache/providers/swiftshader/usr/lib/chromium')
  if (!existsSync(folder)) return null
  return { ...librariesFrom(folder), VK_DRIVER_FILES: join(folder, 'vk_swiftshader_icd.json') }
}

/** A provider plugin that takes every device for a GPU and is otherwise the one given, which offers itself on GPUs alone; `null` without a C compiler. */
export function pluginForSoftware(library: string): string | null {
  const source = readFileSync(join(root, 'test/providers/any-vendor-plugin.c'), 'utf8')
  return compile(source, [`-DPLUGIN_PATH="${library}"`, '-DDEVICE_KIND=1'])
}

/** What stands for onnxruntime-node's own code: in a child, providers are tried through it. */
const standInBinding = `
exports.env = { versions: { common: '1.99.0', node: '1.99.0' } }
exports.Tensor = class {}
exports.InferenceSession = { create: async () => ({ run: async () => ({}) }) }
exports.listSupportedBackends = () => [{ name: 'cpu' }, { name: 'cuda' }]
`

/**
 * This package over the ONNX Runtime of the C++ tests, in a folder of its own while `use` goes on.
 *
 * @param use is given the path of the package's entry, and the environment for processes that import it.
 */
export async function overStandInRuntime<T>(
  addon: string,
  use: (entry: string, environment: NodeJS.ProcessEnv) => Promise<T>,
): Promise<T> {
  if (process.platform !== 'linux')
    throw new TrialSkipped(
      " (skipped: ONNX Runtime's CUDA provider is not installed, and its stand-in is for Linux)",
    )
  const library = built('libonnxruntime.so.1', ['native/test/fake_onnxruntime.cc'], ['-shared', '-fPIC'])
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  try {
    const runtime = join(folder, 'node_modules/onnxruntime-node')
    const libraries = join(runtime, 'bin/napi-v6', process.platform, process.arch)
    mkdirSync(libraries, { recursive: true })
    copyFileSync(join(library, 'libonnxruntime.so.1'), join(libraries, 'libonnxruntime.so.1'))
    writeFileSync(
      join(runtime, 'package.json'),
      JSON.stringify({ name: 'onnxruntime-node', version: '1.99.0', main: 'index.js' }),
    )
    // Its CUDA provider is there, and runs whatever it is tried with.
    writeFileSync(join(libraries, 'libonnxruntime_providers_cuda.so'), '')
    writeFileSync(join(runtime, 'index.js'), standInBinding)
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>
    }
    for (const name of Object.keys(dependencies))
      symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name))
    cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true })
    copyFileSync(join(root, 'package.json'), join(folder, 'package.json'))
    return await use(join(folder, 'dist/index.js'), { ZEROHOP_NATIVE: addon })
  } finally {
    rmSync(folder, { recursive: true })
  }
}
