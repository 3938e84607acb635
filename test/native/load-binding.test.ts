import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'rolldown'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { BINDING_VERSION, prebuildName } from '../../src/native/addon.ts'
import { binaries, nothingBuilt, root, runChild } from './binaries.ts'

interface Loaded {
  path?: string
  reason?: string
  version?: string
  kept: boolean
}

/** Of one file, as in the package: TypeScript would take each process below half a second. */
const { output } = await build({
  input: join(root, 'src/native/addon.ts'),
  platform: 'node',
  write: false,
  optimization: { inlineConst: false }, // one is replaced below
  logLevel: 'silent',
})
const loader = 'dist/addon.js'
const built = join(root, binaries.find((path) => !path.includes('/Asan/')) ?? '')
const prebuilt = `prebuilds/${prebuildName()}/zerohop.node`

const foreignAddon = findForeignAddon()

// A package of its own, so that what this checkout has built does not matter.
let home: string

beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'zerohop-loader-')))
  put(
    'package.json',
    '{ "name": "zerohop", "type": "module", "exports": { "./package.json": "./package.json" } }',
  )
  put(loader, output[0].code)
})

afterEach(() => rmSync(home, { recursive: true }))

function place(path: string): string {
  const full = join(home, path)
  mkdirSync(dirname(full), { recursive: true })
  return full
}

/** An addon that a dependency of ours brings along, where it has one for this platform. */
function findForeignAddon(): string | undefined {
  const platform = `${process.platform}-${process.arch}${process.platform === 'linux' ? '-gnu' : ''}`
  try {
    return createRequire(import.meta.url).resolve(`@napi-rs/nice-${platform}`)
  } catch {
    return undefined
  }
}

const put = (path: string, text: string): void => writeFileSync(place(path), text)
const putBinary = (path: string): void => copyFileSync(built, place(path))

function load(native?: string): Loaded {
  const url = pathToFileURL(join(home, loader)).href
  const { status, answer, stderr } = runChild('load.mjs', [url], { ZEROHOP_NATIVE: native })
  expect(status, stderr).toBe(0)
  return answer as Loaded
}

describe('without a binary the loader gives the reason', () => {
  test('platform, every path it tried, and the next command', () => {
    const { path, reason, kept } = load()
    expect([path, kept]).toEqual([undefined, true])
    expect(reason).toContain(`no native addon for ${prebuildName()}`)
    for (const folder of [dirname(prebuilt), 'build/cmake/Release', 'build/Release']) {
      expect(reason).toContain(`${join(home, folder, 'zerohop.node')}: not there`)
    }
    expect(reason).toContain(
      `npx cmake-js compile -d "${join(home, 'native')}" -O "${join(home, 'build/cmake/Release')}" -B Release\``,
    )
  })

  test('in a checkout the next command is the script', () => {
    put('scripts/native/build.mjs', '')
    expect(load().reason).toContain('npm run build:native')
  })

  test('ZEROHOP_NATIVE=off', () => {
    expect(load('off').reason).toContain('ZEROHOP_NATIVE=off')
  })

  test('ZEROHOP_NATIVE names a file that is not there, and nothing else is tried', () => {
    const { reason } = load('/nonexistent/zerohop.node')
    expect(reason).toContain('/nonexistent/zerohop.node: not there')
    expect(reason).not.toContain(home)
  })

  test('the file is garbage, whatever its name', () => {
    put('garbage', 'this is no library')
    expect(load(join(home, 'garbage')).reason).toMatch(/garbage: .+/)
  })

  test.skipIf(process.platform === 'win32').each([
    ['a folder', () => mkdirSync(join(home, 'there'))],
    ['a pipe, into which nobody writes', () => execFileSync('mkfifo', [join(home, 'there')])],
  ])('it is %s', (_, make) => {
    make()
    expect(load(join(home, 'there')).reason).toContain('there: no file')
  })

  test('the system does not say whether it is there, but why not', () => {
    expect(load(join(home, 'n'.repeat(300))).reason).toContain('ENAMETOOLONG')
  })

  test.skipIf(foreignAddon === undefined)('the file is an addon of somebody else', () => {
    expect(load(foreignAddon).reason).toContain('not the addon of zerohop')
  })
})

describe.skipIf(nothingBuilt)(
  `the loader${nothingBuilt ? ' (no binary: npm run build:native makes one)' : ''}`,
  () => {
    test('takes the binary that ZEROHOP_NATIVE names', () => {
      putBinary('elsewhere/some.node')
      const path = join(home, 'elsewhere/some.node')
      expect(load(path)).toEqual({ path, version: BINDING_VERSION, kept: true })
    })

    test('takes the prebuild before local builds', () => {
      for (const path of [prebuilt, 'build/cmake/Release/zerohop.node', 'build/Release/zerohop.node'])
        putBinary(path)
      expect(load().path).toBe(join(home, prebuilt))
    })

    test('goes past broken binaries to one that works', () => {
      put(prebuilt, 'not a library')
      putBinary('build/cmake/Release/zerohop.node')
      truncateSync(join(home, 'build/cmake/Release/zerohop.node'), 10_000)
      putBinary('build/Release/zerohop.node')
      expect(load().path).toBe(join(home, 'build/Release/zerohop.node'))
    })

    test('refuses a binary of another version and says which', () => {
      const { code } = output[0]
      put(loader, code.replace(`BINDING_VERSION = "${BINDING_VERSION}"`, 'BINDING_VERSION = "next"'))
      putBinary(prebuilt)
      expect(load().reason).toContain(
        `made for another version of zerohop (binding ${BINDING_VERSION}, wanted next)`,
      )
    })
  },
)

test("the scripts and the loader agree on the name of this platform's prebuild", async () => {
  const scripts = await import(pathToFileURL(join(root, 'scripts/native/toolchain.mjs')).href)
  expect(scripts.prebuildName()).toBe(prebuildName())
})
