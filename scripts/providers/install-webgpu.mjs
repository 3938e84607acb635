// Installs the WebGPU plugin into a virtual environment of this checkout, for `npm run bench:gpu`:
//   node scripts/providers/install-webgpu.mjs [--with-swiftshader]
// With --with-swiftshader also Vulkan in software, on which WebGPU runs where there is no GPU: a library of Debian's package of
// Chromium, unpacked beside it. It prints where they are. Nothing of them is committed or published.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const cache = fileURLToPath(new URL('../../.cache/providers', import.meta.url))
const environment = join(cache, 'webgpu/.venv')
const python = join(environment, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python')

function run(command, args, cwd = cache) {
  const { status, error, stdout } = spawnSync(command, args, {
    cwd,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (error !== undefined || status !== 0) {
    console.error(
      `It cannot be had here: ${command} ${args.join(' ')} ${error ? `could not be started (${error.message})` : `ended with code ${status}`}.`,
    )
    process.exit(1)
  }
  return stdout.trim()
}

/** From the package by its files, without what it depends on. */
function installSwiftShader() {
  const driver = join(cache, 'swiftshader/usr/lib/chromium/libvk_swiftshader.so')
  if (existsSync(driver)) return driver
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  try {
    run('apt-get', ['download', '-qq', 'chromium-common'], folder)
    run(
      'dpkg',
      ['-x', readdirSync(folder).find((name) => name.endsWith('.deb')), join(cache, 'swiftshader')],
      folder,
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
  return driver
}

mkdirSync(cache, { recursive: true })
if (!existsSync(python)) run(process.platform === 'win32' ? 'python' : 'python3', ['-m', 'venv', environment])
run(python, [
  '-m',
  'pip',
  'install',
  '--quiet',
  '--disable-pip-version-check',
  '--only-binary',
  ':all:',
  '--no-deps',
  'onnxruntime-ep-webgpu==0.4.0',
])
console.log(run(python, ['-c', 'import sysconfig; print(sysconfig.get_paths()["platlib"])']))
if (process.argv.includes('--with-swiftshader')) console.log(installSwiftShader())
