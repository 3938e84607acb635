import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { faultsOf, type BinaryFacts, type PrebuildPlatform } from '../../scripts/native/prebuild-faults.mjs'
import { root } from './binaries.ts'

const entries = ['napi_register_module_v1', 'node_api_module_get_api_version_v1']
const linux: BinaryFacts = {
  format: 'ELF',
  machine: 'X86_64',
  exports: entries,
  libraries: ['libc.so.6', 'ld-linux-x86-64.so.2'],
  from_node: ['napi_wrap'],
  system: [2, 27],
  other_versions: [],
  bytes: 600_000,
}
const macos: BinaryFacts = {
  format: 'Mach-O',
  machine: 'ARM64',
  exports: [...entries, '_Znwm', '__dso_handle'],
  libraries: ['/usr/lib/libSystem.B.dylib'],
  from_node: ['napi_wrap'],
  system: [13, 3],
  signed: true,
  bytes: 600_000,
}
const windows: BinaryFacts = {
  format: 'PE',
  machine: 'AMD64',
  exports: entries,
  libraries: ['KERNEL32.dll', 'api-ms-win-crt-heap-l1-1-0.dll'],
  from_node: ['napi_add_env_cleanup_hook'],
  system: [6, 0],
  bytes: 600_000,
}

describe('a prebuild', () => {
  test.each([
    ['linux-x64', linux],
    ['darwin-arm64', macos],
    ['win32-x64', windows],
  ] as const)('for %s that is as it has to be has no faults', (platform, facts) => {
    expect(faultsOf(platform, facts)).toEqual([])
  })

  const wrong: [fault: string, PrebuildPlatform, BinaryFacts][] = [
    ['format: expected PE, received ELF', 'win32-x64', linux],
    ['machine: expected AARCH64, received X86_64', 'linux-arm64', { ...linux, libraries: ['libc.so.6'] }],
    ['size: expected 700000 bytes at most, received 700001', 'linux-x64', { ...linux, bytes: 700_001 }],
    ['exports lack: napi_register_module_v1', 'linux-x64', { ...linux, exports: entries.slice(1) }],
    ['exports that nobody needs: _Znwm', 'linux-x64', { ...linux, exports: [...entries, '_Znwm'] }],
    [
      'exports that nobody needs: cudaMalloc',
      'darwin-arm64',
      { ...macos, exports: [...entries, 'cudaMalloc'] },
    ],
    [
      'exports that nobody needs: a, b, c, d, e, and 2 more',
      'linux-x64',
      { ...linux, exports: [...entries, ...'abcdefg'] },
    ],
    [
      'libraries that not every such system has: libstdc++.so.6',
      'linux-x64',
      { ...linux, libraries: ['libc.so.6', 'libstdc++.so.6'] },
    ],
    [
      'libraries that not every such system has: GLIBCXX_3.4.30',
      'linux-x64',
      { ...linux, other_versions: ['GLIBCXX_3.4.30'] },
    ],
    [
      'libraries that not every such system has: @rpath/libonnxruntime.dylib',
      'darwin-arm64',
      { ...macos, libraries: ['@rpath/libonnxruntime.dylib'] },
    ],
    [
      'libraries that not every such system has: VCRUNTIME140.dll',
      'win32-x64',
      { ...windows, libraries: ['VCRUNTIME140.dll'] },
    ],
    [
      'wanted of Node, which does not offer it: node_api_symbol_for',
      'win32-x64',
      { ...windows, from_node: ['napi_wrap', 'node_api_symbol_for'] },
    ],
    ['system: expected 2.28 or older, received 2.34', 'linux-x64', { ...linux, system: [2, 34] }],
    ['system: expected 13.3 or older, received 14.0', 'darwin-arm64', { ...macos, system: [14, 0] }],
    [
      'signature: expected one, as this system runs nothing without, received none',
      'darwin-arm64',
      { ...macos, signed: false },
    ],
  ]
  test.each(wrong)('has the fault "%s"', (fault, platform, facts) => {
    expect(faultsOf(platform, facts)).toEqual([fault])
  })
})

const reader = existsSync(join(root, '.cache/lief/installed.txt'))
const suite = reader
  ? 'npm run check:prebuilds'
  : 'npm run check:prebuilds (its reader is not here: run it once)'
describe.skipIf(!reader)(suite, () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'zerohop-prebuilds-'))
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  const check = (...line: string[]) =>
    spawnSync(process.execPath, ['scripts/native/check-prebuilds.mjs', '--folder', folder, ...line], {
      cwd: root,
      encoding: 'utf8',
    })

  test('tells what is wrong with each, and fails', () => {
    for (const [platform, write] of Object.entries(others)) {
      mkdirSync(join(folder, platform))
      write(join(folder, platform, 'zerohop.node'))
    }
    const { status, stdout, stderr } = check(...Object.keys(others))
    const faults = new Map(stdout.split(/^[┌├└].*$/m).map((row) => [/\w+-\w+/.exec(row)?.[0], row]))
    expect(faults.get('linux-x64')).toContain('machine: expected X86_64, received AARCH64')
    expect(faults.get('linux-arm64')).toContain(
      'libraries that not every such system has: libonnxruntime.so.1',
    )
    expect(faults.get('darwin-x64')).toContain('format: expected Mach-O, received none')
    expect(faults.get('darwin-arm64')).toContain('libonnxruntime')
    expect(faults.get('win32-x64')).toContain('libraries that not every such system has: onnxruntime.dll')
    expect(stderr).toContain('not all prebuilds are as they have to be')
    expect(status).toBe(1)
  })

  test('says how to make one that is not there', () => {
    const { status, stderr } = check('win32-arm64')
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: expect.stringContaining('npm run prebuild -- win32-arm64 makes it'),
    })
  })

  test('names the platforms to who asks for another', () => {
    const { status, stderr } = check('linux-x46')
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: expect.stringContaining('no platform linux-x46; expected some of linux-x64'),
    })
  })
})

/** Binaries of onnxruntime-node, which import its library, and a text. */
const others: Record<string, (path: string) => void> = {
  'linux-x64': (path) => copyFileSync(bindingFor('linux/arm64'), path),
  // With a version of the C library that has no number, as GLIBC_ABI_DT_RELR.
  'linux-arm64': (path) =>
    writeFileSync(
      path,
      readFileSync(bindingFor('linux/arm64'), 'latin1').replaceAll('GLIBC_2.17\0', 'GLIBC_ABIX\0'),
      'latin1',
    ),
  'darwin-x64': (path) => writeFileSync(path, 'no binary'),
  'darwin-arm64': (path) => copyFileSync(bindingFor('darwin/arm64'), path),
  'win32-x64': (path) => copyFileSync(bindingFor('win32/x64'), path),
}

function bindingFor(platform: string): string {
  const home = dirname(createRequire(import.meta.url).resolve('onnxruntime-node/package.json'))
  return join(home, 'bin/napi-v6', platform, 'onnxruntime_binding.node')
}
