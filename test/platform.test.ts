import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { checkPlatform, otherRuntime, platformError, type PlatformFacts } from '../src/base/platform.ts'

const here: PlatformFacts = { versions: { node: '20.19.0' }, musl: false }

describe('a process that can have an engine', () => {
  it.each(['20.19.0', '20.20.2', '21.0.0', '22.0.0', '26.3.0', '100.1.0'])('is one of Node.js %s', (node) => {
    expect(platformError({ ...here, versions: { node } })).toBeNull()
    expect(otherRuntime({ node })).toBeNull()
  })

  it('is this one', () => {
    expect(checkPlatform).not.toThrow()
  })
})

describe('a process that cannot have one is told what was expected, what was found and what to do', () => {
  it.each<[what: string, facts: Partial<PlatformFacts>, expected: string, received: string, next: RegExp]>([
    [
      'Bun',
      { versions: { node: '24.3.0', bun: '1.4.5' } },
      'Node.js itself',
      'Bun 1.4.5',
      /in a Node\.js process.*`serve\(\)` of zerohop\/processes.*`connect\(\)`/,
    ],
    [
      'Deno',
      { versions: { node: '26.3.0', deno: '2.9.6' } },
      'Node.js itself',
      'Deno 2.9.6',
      /in a Node\.js process/,
    ],
    [
      'Electron',
      { versions: { node: '24.11.0', electron: '45.4.1' } },
      'Node.js itself',
      'Electron 45.4.1',
      /in a Node\.js process/,
    ],
    [
      'Bun on musl',
      { versions: { node: '24.3.0', bun: '1.4.5' }, musl: true },
      'Node.js itself',
      'Bun 1.4.5',
      /in a Node\.js process/,
    ],
    [
      'Node.js 20.18',
      { versions: { node: '20.18.3' } },
      'Node.js 20.19 or newer',
      'Node.js 20.18.3',
      /newer version of Node\.js\.$/,
    ],
    [
      'Node.js 18',
      { versions: { node: '18.20.8' } },
      'Node.js 20.19 or newer',
      'Node.js 18.20.8',
      /newer version of Node\.js\.$/,
    ],
    [
      'musl',
      { musl: true },
      'Linux with glibc',
      'Node.js for musl (as on Alpine)',
      /use an image such as node:22-slim instead of node:22-alpine\.$/,
    ],
  ])('%s', (_, facts, expected, received, next) => {
    const error = platformError({ ...here, ...facts })
    expect(error).toMatchObject({ name: 'InferenceError', code: 'ERR_PLATFORM', expected, received })
    expect(error!.message).toContain(`expected ${expected}, received ${received}. `)
    expect(error!.message).toMatch(next)
  })
})

it('the oldest version is that of package.json', () => {
  const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    engines: { node: string }
  }
  const oldest = engines.node.replace('>=', '')
  expect(platformError({ ...here, versions: { node: `${oldest}.0` } })).toBeNull()
  expect(platformError({ ...here, versions: { node: '20.18.99' } })!.expected).toBe(
    `Node.js ${oldest} or newer`,
  )
})
