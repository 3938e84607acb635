// Builds the native addon: node scripts/native/build.mjs [--cmake|--gyp] [--debug|--asan|--tsan] [--optional]
// --cmake (the default) puts it into build/cmake/<configuration>, --gyp into build/<configuration>.
// --optional is for npm's prepare: nothing to do where a prebuild fits, and never a reason for npm to fail.
import { existsSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { nodeDirectory } from './node-directory.mjs'
import { fail, has, hasCompiler, packageFile, prebuildPath, root, run } from './toolchain.mjs'

const withoutIt =
  'Models run through the binding of onnxruntime-node then: slower, with runs that cannot be stopped, without sequences, maps and values of less than 8 bits'

/** Builds with cmake-js; returns the path of the binary. */
function buildWithCMake(configuration) {
  const cmakeJs = packageFile('cmake-js', 'bin/cmake-js')
  const output = `build/cmake/${configuration}`
  forgetOther(output)
  run(process.execPath, [cmakeJs, 'compile', '-d', 'native', '-O', output, '-B', configuration, '-l', 'warn'])
  return `${output}/zerohop.node`
}

/** What CMake knows of another folder, of which this one is a copy, would have it build that one's sources. */
function forgetOther(output) {
  const cache = join(root, output, 'CMakeCache.txt')
  if (!existsSync(cache)) return
  const [, home] = /^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$/m.exec(readFileSync(cache, 'utf8')) ?? []
  if (home !== undefined && realpathSync(home) !== realpathSync(join(root, 'native')))
    rmSync(join(root, output), { recursive: true })
}

/** Builds with node-gyp; returns the path of the binary. */
function buildWithGyp(configuration) {
  const nodeGyp = packageFile('node-gyp', 'bin/node-gyp.js')
  const nodedir = nodeDirectory()
  const flags = [
    configuration === 'Debug' ? '--debug' : '--release',
    ...(nodedir ? [`--nodedir=${nodedir}`] : []),
  ]
  run(process.execPath, [nodeGyp, 'configure', 'build', ...flags, '--loglevel=warn'])
  return `build/${configuration}/zerohop.node`
}

/** Says in a few words what the chosen build lacks, or nothing. */
function missing(gyp) {
  if (!hasCompiler()) return 'a C++ compiler'
  if (gyp) return packageFile('node-gyp', '') === undefined ? 'node-gyp' : undefined
  if (!has('cmake')) return 'cmake'
  return packageFile('cmake-js', '') === undefined ? 'cmake-js' : undefined
}

function main(args) {
  const configuration = args.includes('--debug')
    ? 'Debug'
    : args.includes('--asan')
      ? 'Asan'
      : args.includes('--tsan')
        ? 'Tsan'
        : 'Release'
  const optional = args.includes('--optional')
  const gyp = args.includes('--gyp')
  if (gyp && !['Release', 'Debug'].includes(configuration))
    throw new Error('sanitizers are built with --cmake')
  if (optional && existsSync(prebuildPath)) return
  const lacking = missing(gyp)
  try {
    if (lacking !== undefined) throw new Error(`${lacking} is missing`)
    const { core, addon } = JSON.parse(readFileSync(join(root, 'native/sources.json'), 'utf8'))
    console.log(
      `zerohop: compiling the native addon, ${core.length + addon.length} C++ files, with ${gyp ? 'node-gyp' : 'CMake'}: under a minute`,
    )
    console.log(`zerohop: built ${gyp ? buildWithGyp(configuration) : buildWithCMake(configuration)}`)
    if (existsSync(prebuildPath))
      console.warn(
        `zerohop: ${relative(root, prebuildPath)} goes before it; remove that one, or name this one by ZEROHOP_NATIVE`,
      )
  } catch (error) {
    if (!optional) throw error
    console.warn(`zerohop: the native addon was not built (${error.message}). ${withoutIt}.`)
  }
}

try {
  main(process.argv.slice(2))
} catch (error) {
  fail(error)
}
