import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ownIdentity } from '../../src/models/compiled-models/entry-lock.ts'
import { full } from '../support/full.ts'
import { until } from '../support/until.ts'
import { cachedLoad, compiledFolder, entriesIn, ownFolder, plainLoad } from './cached.ts'
import { canMount, mounted } from './mounts.ts'
import { perceptron, perceptronOutside } from './models.ts'

const weights = 'model.weights'
const graph = 'model.onnx'
const manifest = 'manifest.json'

/** A file of the only entry is written to, by someone who may. */
function changed(entry: string, file: string, change: (path: string) => void): void {
  const path = join(entry, file)
  const { atime, mtime } = statSync(path)
  chmodSync(path, 0o600)
  change(path)
  chmodSync(path, 0o400)
  utimesSync(path, atime, mtime) // as disks do it that lose something: they do not tell
}

function flipped(path: string, from: 'start' | 'end'): void {
  const bytes = readFileSync(path)
  const at = from === 'start' ? bytes.length >> 1 : bytes.length - 5
  bytes[at] = bytes[at]! ^ 0x40
  writeFileSync(path, bytes)
}

/** Another one for an entry that was made anew. */
function madeAt(entry: string): string {
  const { ino, birthtimeMs } = statSync(entry)
  return `${ino} ${birthtimeMs}`
}

const asRoot = process.getuid?.() === 0

const faults: [what: string, harm: (entry: string) => void][] = [
  ['truncated weights', (entry) => changed(entry, weights, (path) => truncateSync(path, 1000))],
  ['a flipped bit in the graph', (entry) => changed(entry, graph, (path) => flipped(path, 'end'))],
  ['no manifest, as if half-written', (entry) => unlinkSync(join(entry, manifest))],
  ['weights that others may write to', (entry) => chmodSync(join(entry, weights), 0o666)],
]
if (full) {
  faults.push(
    ['a truncated graph', (entry) => changed(entry, graph, (path) => truncateSync(path, 100))],
    ['a flipped bit in the weights', (entry) => changed(entry, weights, (path) => flipped(path, 'start'))],
    ['a flipped bit in the manifest', (entry) => changed(entry, manifest, (path) => flipped(path, 'start'))],
    ['an empty manifest', (entry) => changed(entry, manifest, (path) => truncateSync(path, 0))],
    ['no weights', (entry) => unlinkSync(join(entry, weights))],
    ['a graph that its group may write to', (entry) => chmodSync(join(entry, graph), 0o460)],
    ['a folder that others may write to', (entry) => chmodSync(entry, 0o777)],
    [
      'a file where its folder was',
      (entry) => (rmSync(entry, { recursive: true }), writeFileSync(entry, 'no entry')),
    ],
  )
}
if (full && asRoot) {
  faults.push(
    ['a folder of another user', (entry) => chownSync(entry, 12_345, 12_345)],
    ['weights of another user', (entry) => chownSync(join(entry, weights), 12_345, 12_345)],
    ['a manifest of another user', (entry) => chownSync(join(entry, manifest), 12_345, 12_345)],
  )
}

describe('an entry of the cache with', () => {
  it.each(faults)('%s is made anew, and the answers are right', async (_, harm) => {
    const dir = await compiledFolder()
    const config = { path: perceptron() }
    const expected = await plainLoad(config)
    const [entry] = entriesIn(dir)
    const before = madeAt(entry!)
    harm(entry!)
    const second = await cachedLoad(dir, config)
    expect(second.origin.compiled).toBe(true)
    expect(entriesIn(dir)).toEqual([entry])
    expect(madeAt(entry!)).not.toBe(before)
    const third = await cachedLoad(dir, config)
    expect([second.y, third.y]).toEqual([expected, expected])
    expect(third.origin.compiled).toBe(true)
  })

  it('files that were copied elsewhere and back is believed once they were hashed again', async () => {
    const dir = ownFolder()
    const config = { path: perceptron() }
    await cachedLoad(dir, config)
    const [entry] = entriesIn(dir)
    const before = madeAt(entry!)
    const path = join(entry!, weights)
    const copy = join(ownFolder(), 'copy')
    copyFileSync(path, copy)
    unlinkSync(path)
    copyFileSync(copy, path)
    chmodSync(path, 0o400)
    const stamps = () => readFileSync(join(entry!, manifest), 'utf8')
    const stamped = stamps()
    expect((await cachedLoad(dir, config)).y).toEqual(await plainLoad(config))
    expect([madeAt(entry!) === before, stamps() === stamped]).toEqual([true, false])
  })
})

describe('a model that is replaced under its path', () => {
  it.each([
    ['in one file', perceptron, []] as const,
    ...(full ? [['with its weights beside it', perceptronOutside, ['.bin']] as const] : []),
  ])('answers as the new one does (%s)', async (_, make, more) => {
    const dir = ownFolder()
    const folder = ownFolder()
    const path = join(folder, 'model.onnx')
    const put = (seed: number) => {
      const source = make(seed)
      for (const ending of more)
        copyFileSync(
          source.replace('.onnx', ending),
          join(folder, source.replace('.onnx', ending).split('/').at(-1)!),
        )
      copyFileSync(source, path)
    }
    put(1)
    const first = await cachedLoad(dir, { path })
    put(2)
    const second = await cachedLoad(dir, { path })
    expect([first.y, second.y]).toEqual([
      await plainLoad({ path: make(1) }),
      await plainLoad({ path: make(2) }),
    ])
    expect([first.origin.compiled, second.origin.compiled, entriesIn(dir).length]).toEqual([true, true, 2])
  })

  it('answers as the new one does when only the weights beside it are others', async () => {
    const dir = ownFolder()
    const folder = ownFolder()
    const path = join(folder, 'model.onnx')
    const outside = (seed: number) => perceptronOutside(seed).replace('.onnx', '.bin')
    copyFileSync(perceptronOutside(1), path)
    const beside = join(folder, outside(1).split('/').at(-1)!)
    copyFileSync(outside(1), beside)
    const first = await cachedLoad(dir, { path })
    copyFileSync(outside(2), beside)
    const second = await cachedLoad(dir, { path })
    expect([first.y, second.y]).toEqual([
      await plainLoad({ path: perceptronOutside(1) }),
      await plainLoad({ path: perceptronOutside(2) }),
    ])
  })
})

describe('a cache that cannot be written to', () => {
  it('because there can be no such folder: models are served without it, and that is said', async () => {
    const file = join(ownFolder(), 'file')
    writeFileSync(file, '')
    const { y, origin, cache } = await cachedLoad(join(file, 'cache'), { path: perceptron() })
    expect(y).toEqual(await plainLoad({ path: perceptron() }))
    expect(origin.compiled).toBe(false)
    expect(cache).toMatchObject({ enabled: false, reason: expect.stringContaining('ENOTDIR') as string })
  })

  it.runIf(process.platform === 'linux')(
    'because its file system has no such folders: that is not tried for ever',
    async () => {
      for (const dir of ['/proc/self/cache', '/proc']) {
        const { origin, cache } = await cachedLoad(dir, { path: perceptron() }, { verify: 'none' })
        expect([origin.compiled, cache.enabled]).toEqual([false, false])
        expect(cache.reason).toMatch(/ENOENT|EACCES|EPERM/)
      }
    },
  )

  it.skipIf(!canMount())(
    'because its disk is only to be read: models are served without it, and those that it has out of it',
    async () => {
      const dir = await compiledFolder(1, mounted('4m'))
      const config = { path: perceptron() }
      execFileSync('mount', ['-o', 'remount,ro', dir])
      const known = await cachedLoad(dir, config)
      expect([known.origin.compiled, known.y]).toEqual([true, await plainLoad(config)])
      const other = await cachedLoad(dir, { path: perceptron(2) })
      expect(other.y).toEqual(await plainLoad({ path: perceptron(2) }))
      expect(other.origin.compiled).toBe(false)
      expect(other.cache).toMatchObject({
        enabled: false,
        reason: expect.stringContaining('EROFS') as string,
      })
    },
  )

  it.skipIf(!canMount())(
    'because its disk is full: models are served without it, and that is said',
    async () => {
      const dir = mounted('64k')
      const { y, origin, cache } = await cachedLoad(dir, { path: perceptron() })
      expect([y, origin.compiled]).toEqual([await plainLoad({ path: perceptron() }), false])
      expect(cache).toMatchObject({
        enabled: false,
        reason: expect.stringMatching(/bytes free|ENOSPC/) as string,
      })
    },
  )

  it.skipIf(!canMount())(
    'is written to again when what fills its disk was left by a process that was killed',
    async () => {
      const dir = mounted('4m')
      const [place] = ownIdentity().split('.')
      const left = join(dir, 'compiled-models-v1', 'unfinished', `${place}.${2 ** 22 + 1}.1-left`) // a number above what the system gives
      mkdirSync(left, { recursive: true, mode: 0o700 })
      writeFileSync(join(left, 'model.weights'), Buffer.alloc(3 * 2 ** 20))
      expect((await cachedLoad(dir, { path: perceptron() })).origin.compiled).toBe(true)
      expect(existsSync(left)).toBe(false)
    },
  )

  it('is rid of the lock of a process that was killed, also where the model of that is compiled', async () => {
    const dir = await compiledFolder()
    const [entry] = entriesIn(dir)
    const [place] = ownIdentity().split('.')
    const locks = join(dir, 'compiled-models-v1', 'locks')
    mkdirSync(locks, { mode: 0o700 })
    writeFileSync(join(locks, basename(entry!)), `${place}.${2 ** 22 + 1}.1 left`)
    await cachedLoad(dir, { path: perceptron(2) })
    await until(() => readdirSync(locks).length === 0)
    expect(readdirSync(locks)).toEqual([])
  })

  it.skipIf(!canMount())(
    'is written to again when what fills its disk are models that were not used for a while, and only then',
    async () => {
      const dir = await compiledFolder(1, mounted('4m'))
      const room = join(dir, 'compiled-models-v1')
      const [first] = entriesIn(dir)
      const longAgo = new Date(Date.now() - 3_600_000)
      const unused = (key: string, bytes: number) => {
        mkdirSync(join(room, 'entries', key), { recursive: true, mode: 0o700 })
        writeFileSync(join(room, 'entries', key, weights), Buffer.alloc(bytes))
        writeFileSync(join(room, 'used', key), '')
        utimesSync(join(room, 'used', key), longAgo, longAgo)
      }
      unused('large', 3 * 2 ** 20)
      expect((await cachedLoad(dir, { path: perceptron(2) })).origin.compiled).toBe(true)
      expect([existsSync(join(room, 'entries', 'large')), existsSync(first!)]).toEqual([false, true])
      unused('small', 1000)
      writeFileSync(join(dir, 'of others'), Buffer.alloc(3 * 2 ** 20))
      expect((await cachedLoad(dir, { path: perceptron(3) })).origin.compiled).toBe(false)
      expect(existsSync(join(room, 'entries', 'small'))).toBe(true)
    },
  )

  it.skipIf(!canMount())(
    'because its disk has filled up while a model was compiled: nothing that is not whole is kept',
    async () => {
      const dir = mounted('1200k')
      mkdirSync(join(dir, 'fill'))
      const config = { path: perceptron() }
      // It seems to have room; when the model is written it has less.
      for (const kept of full ? [1130, 1100, 1090, 1080, 1070, 1060] : [1070]) {
        writeFileSync(join(dir, 'fill', 'file'), Buffer.alloc(0))
        const loading = cachedLoad(dir, config)
        setTimeout(() => {
          try {
            writeFileSync(join(dir, 'fill', 'file'), Buffer.alloc(kept * 1024))
          } catch {
            // full, which is what was to be
          }
        }, 100)
        expect((await loading).y).toEqual(await plainLoad(config))
        rmSync(join(dir, 'compiled-models-v1'), { recursive: true, force: true })
      }
    },
  )
})

describe('a cache in a folder', () => {
  it('into which others may write begins anew', async () => {
    const dir = await compiledFolder()
    const config = { path: perceptron() }
    const [entry] = entriesIn(dir)
    const before = madeAt(entry!)
    chmodSync(join(dir, 'compiled-models-v1'), 0o777)
    const { y, origin } = await cachedLoad(dir, config)
    expect([y, origin.compiled]).toEqual([await plainLoad(config), true])
    expect(madeAt(entry!)).not.toBe(before)
    expect(statSync(join(dir, 'compiled-models-v1')).mode & 0o777).toBe(0o700)
  })

  it.skipIf(!asRoot)('of another user is not used', async () => {
    const dir = ownFolder()
    mkdirSync(join(dir, 'compiled-models-v1'), { mode: 0o700 })
    chownSync(dir, 12_345, 12_345)
    chmodSync(dir, 0o555)
    chownSync(join(dir, 'compiled-models-v1'), 12_345, 12_345)
    const { y } = await cachedLoad(dir, { path: perceptron() })
    expect(y).toEqual(await plainLoad({ path: perceptron() }))
  })
})
