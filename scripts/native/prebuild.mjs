// Makes prebuilds of the addon, for any platform on any: node scripts/native/prebuild.mjs [--all | PLATFORM-ARCH...]
// Without a name this machine's. The same sources give the same bytes.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative } from 'node:path'
import pMap from 'p-map'
import { platforms } from './platforms.mjs'
import { fail, packageFile, prebuildName, root } from './toolchain.mjs'
import { zig } from './zig.mjs'

const defines = [
  'NAPI_VERSION=8',
  'NAPI_CPP_EXCEPTIONS',
  'NODE_ADDON_API_CPP_EXCEPTIONS_ALL',
  'NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS',
  'BUILDING_NODE_EXTENSION',
  'NOMINMAX',
  'NDEBUG',
]

const filesInUnit = 8 // as in native/CMakeLists.txt

/** Compiling a small file is mostly reading headers: joined in eights, the sources read them once. */
function writeUnits() {
  const folder = join('build', 'prebuilds', 'units')
  mkdirSync(join(root, folder), { recursive: true })
  const { core, addon } = JSON.parse(readFileSync(join(root, 'native/sources.json'), 'utf8'))
  return [core, addon].flatMap((sources, group) =>
    Array.from({ length: Math.ceil(sources.length / filesInUnit) }, (_, index) => {
      const unit = join(folder, `${group}-${index}.cc`)
      const included = sources.slice(index * filesInUnit, (index + 1) * filesInUnit)
      writeFileSync(join(root, unit), included.map((source) => `#include "${source}"\n`).join(''))
      return unit
    }),
  )
}

async function build(name, units) {
  const { target, link, machine } = platforms[name]
  const made = join('build', 'prebuilds', name, 'zerohop.node')
  const path = join('prebuilds', name, 'zerohop.node')
  for (const one of [made, path]) mkdirSync(join(root, dirname(one)), { recursive: true })
  const libraries = machine === undefined ? [] : await importLibraries(name, machine)
  await zig(
    'c++',
    '-target',
    target,
    '-std=c++17',
    '-O2',
    '-g0',
    '-ffunction-sections',
    '-fdata-sections',
    '-fvisibility=hidden',
    '-fvisibility-inlines-hidden',
    '-fPIC',
    ...defines.map((define) => `-D${define}`),
    '-Inative',
    '-isystem',
    inside('node-api-headers', 'include'),
    '-isystem',
    inside('node-addon-api', ''),
    ...units,
    ...libraries,
    ...link,
    '-o',
    made,
  )
  // Moved into place: linkers leave other files beside theirs, and a process that has the old one loaded would not survive its bytes changing.
  renameSync(join(root, made), join(root, path))
  const bytes = readFileSync(join(root, path))
  console.log(
    `zerohop: made ${path}, ${bytes.length} bytes, sha256 ${createHash('sha256').update(bytes).digest('hex')}`,
  )
}

/** What a Windows linker needs to know of node.exe. */
async function importLibraries(name, machine) {
  const folder = join('build', 'import-libraries', name)
  mkdirSync(join(root, folder), { recursive: true })
  const libraries = ['js_native_api', 'node_api'].map((list) => ({
    list,
    library: join(folder, `${list}.lib`),
  }))
  for (const { list, library } of libraries)
    await zig(
      'dlltool',
      '-m',
      machine,
      '-D',
      'node.exe',
      '-d',
      inside('node-api-headers', `def/${list}.def`),
      '-l',
      library,
    )
  return libraries.map(({ library }) => library)
}

/** Relative, so that no path of this machine gets into the binary. */
function inside(name, file) {
  return relative(root, packageFile(name, file))
}

/** Makes them all, and says every few seconds how far it is: the compiler itself says nothing for minutes. */
async function withProgress(names) {
  const startMs = performance.now()
  const units = writeUnits()
  let made = 0
  const say = () =>
    console.log(
      `zerohop: ${made} of ${names.length} made (${names.join(', ')}), after ${Math.round((performance.now() - startMs) / 1000)} s`,
    )
  say()
  const timer = setInterval(say, 10_000)
  try {
    await pMap(names, (name) => build(name, units).then(() => made++), {
      concurrency: availableParallelism(),
    }) // each compiles one unit after the other
  } finally {
    clearInterval(timer)
  }
}

try {
  const asked = process.argv.slice(2)
  const names =
    asked.join() === '--all'
      ? Object.keys(platforms)
      : asked.length > 0
        ? [...new Set(asked)]
        : [prebuildName()]
  const unknown = names.find((name) => !Object.hasOwn(platforms, name))
  if (unknown !== undefined)
    throw new Error(`no platform ${unknown}; expected --all or some of ${Object.keys(platforms).join(', ')}`)
  await withProgress(names)
} catch (error) {
  fail(error)
}
