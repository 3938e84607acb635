// Installs OpenVINO's provider plugin into a virtual environment of this checkout, for tests and the benchmark:
//   node scripts/providers/install-openvino.mjs [--with-openvino]
// With --with-openvino also the package `openvino`, which the benchmark compares with. It prints where the plugin is. Nothing of
// it is committed or published.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const environment = fileURLToPath(new URL('../../.cache/providers/openvino', import.meta.url))
const python = join(environment, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python')
const packages = [
  'onnxruntime-ep-openvino==1.8.1',
  ...(process.argv.includes('--with-openvino') ? ['openvino', 'numpy'] : []),
]

function run(command, args) {
  const { status, error, stdout } = spawnSync(command, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  })
  if (error !== undefined || status !== 0) {
    console.error(
      `OpenVINO's plugin cannot be had here: ${command} ${args.join(' ')} ${error ? `could not be started (${error.message})` : `ended with code ${status}`}.`,
    )
    process.exit(1)
  }
  return stdout.trim()
}

if (!existsSync(python)) run(process.platform === 'win32' ? 'python' : 'python3', ['-m', 'venv', environment])
run(python, [
  '-m',
  'pip',
  'install',
  '--quiet',
  '--disable-pip-version-check',
  '--only-binary',
  ':all:',
  ...packages,
])
console.log(run(python, ['-c', 'import onnxruntime_ep_openvino as plugin; print(plugin.get_library_path())']))
