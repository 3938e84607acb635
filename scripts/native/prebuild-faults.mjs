// What a prebuild has to be, so that it loads wherever onnxruntime-node does.
import { createRequire } from 'node:module'

const { symbols } = createRequire(import.meta.url)('node-api-headers')

const mostBytes = 700_000
const entries = ['napi_register_module_v1', 'node_api_module_get_api_version_v1']
/** What every Node of this version of Node-API offers; package.json names the same one. */
const nodeApi = new Set([...symbols.v8.js_native_api_symbols, ...symbols.v8.node_api_symbols])

/** What zig's linker for macOS cannot hide: the operators new and delete, of the C++ library inside, and two names of its own. */
const shownOnMacos = /^_Z(nw|na|dl|da)\w*$|^_mh_dylib_header$|^__dso_handle$/

const linux = (machine, loader) => ({
  format: 'ELF',
  machine,
  newest: [2, 28],
  libraries: ['libc.so.6', 'libm.so.6', 'libdl.so.2', 'libpthread.so.0', 'librt.so.1', loader],
})
const macos = (machine) => ({
  format: 'Mach-O',
  machine,
  newest: [13, 3],
  libraries: ['/usr/lib/libSystem.B.dylib'],
  shown: shownOnMacos,
})
const windows = (machine) => ({
  format: 'PE',
  machine,
  newest: [10, 0],
  libraries: ['kernel32.dll', /^api-ms-win-crt-[a-z]+-l1-1-0\.dll$/],
})

const expected = {
  'linux-x64': linux('X86_64', 'ld-linux-x86-64.so.2'),
  'linux-arm64': linux('AARCH64', 'ld-linux-aarch64.so.1'),
  'darwin-x64': macos('X86_64'),
  'darwin-arm64': { ...macos('ARM64'), signed: true },
  'win32-x64': windows('AMD64'),
  'win32-arm64': windows('ARM64'),
}

/**
 * What is wrong with a binary that is to be the prebuild of a platform, in words; nothing where all is well. `facts` are
 * those of binary-facts.py, with the size of the file as `bytes`.
 */
export function faultsOf(platform, facts) {
  const { format, machine, newest, libraries, shown, signed = false } = expected[platform]
  if (facts.format !== format) return [`format: expected ${format}, received ${facts.format}`]
  const isOfSystem = (name) =>
    libraries.some((one) =>
      one instanceof RegExp ? one.test(name) : one.toLowerCase() === name.toLowerCase(),
    )
  return [
    ...(facts.machine === machine ? [] : [`machine: expected ${machine}, received ${facts.machine}`]),
    ...(facts.bytes <= mostBytes
      ? []
      : [`size: expected ${mostBytes} bytes at most, received ${facts.bytes}`]),
    ...named(
      'exports lack',
      entries.filter((name) => !facts.exports.includes(name)),
    ),
    ...named(
      'exports that nobody needs',
      facts.exports.filter((name) => !entries.includes(name) && !shown?.test(name)),
    ),
    ...named('libraries that not every such system has', [
      ...facts.libraries.filter((name) => !isOfSystem(name)),
      ...(facts.other_versions ?? []),
    ]),
    ...named(
      'wanted of Node, which does not offer it',
      facts.from_node.filter((name) => !nodeApi.has(name)),
    ),
    ...(isLater(facts.system, newest)
      ? [`system: expected ${newest.join('.')} or older, received ${facts.system.join('.')}`]
      : []),
    ...(signed && !facts.signed
      ? ['signature: expected one, as this system runs nothing without, received none']
      : []),
  ]
}

function named(fault, names) {
  return names.length === 0
    ? []
    : [`${fault}: ${names.slice(0, 5).join(', ')}${names.length > 5 ? `, and ${names.length - 5} more` : ''}`]
}

function isLater([major, minor], [otherMajor, otherMinor]) {
  return major > otherMajor || (major === otherMajor && minor > otherMinor)
}
