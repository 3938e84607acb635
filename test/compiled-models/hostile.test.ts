// Full: it loads models in other processes for each way in which a cache can be harmed.
// Alone: it changes the working folder of its process.
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  CacheFolder,
  userCacheFolder,
  readSealed,
  writeSealed,
} from '../../src/models/compiled-models/cache-folder.ts'
import { isAsRead, readEntry } from '../../src/models/compiled-models/entry.ts'
import { contentOf } from '../../src/models/compiled-models/model-content.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import { NativeExecutor } from '../../src/run/executors/native/native-executor.ts'
import { InferenceEngine } from '../../src/index.ts'
import { modelsCompiled } from '../../src/engine/engine-resources.ts'
import { describeNative } from '../support/native.ts'
import { cachedLoad, entriesIn, ownFolder, plainLoad } from './cached.ts'
import { loadElsewhere } from './in-processes.ts'
import { endless, perceptron, perceptronOutside, row } from './models.ts'

const asRoot = process.getuid?.() === 0
const layout = 'compiled-models-v1'
const never = new AbortController().signal

afterEach(() => void vi.unstubAllEnvs())

describe('what lies in the cache under the name of an entry', () => {
  /** Puts the entry of one model, whole and sealed, where another's is to be. */
  async function swapped(put: (hostile: string, entry: string) => void): Promise<string> {
    const [dir, elsewhere] = [ownFolder(), ownFolder()]
    await cachedLoad(elsewhere, { path: perceptron(2) })
    await cachedLoad(dir, { path: perceptron(1) })
    const [[hostile], [entry]] = [entriesIn(elsewhere), entriesIn(dir)]
    rmSync(entry!, { recursive: true })
    put(hostile!, entry!)
    return dir
  }

  it.each<[string, (hostile: string, entry: string) => void]>([
    ['the entry of another model', (hostile, entry) => cpSync(hostile, entry, { recursive: true })],
    ['a link to a folder elsewhere', (hostile, entry) => symlinkSync(hostile, entry)],
    ['a link to nothing', (_, entry) => symlinkSync('/nowhere', entry)],
    [
      'a folder of links',
      (hostile, entry) => (
        mkdirSync(entry),
        readdirSync(hostile).forEach((file) => symlinkSync(join(hostile, file), join(entry, file)))
      ),
    ],
  ])('is not used when it is %s', async (_, put) => {
    const dir = await swapped(put)
    const { y, origin } = await cachedLoad(dir, { path: perceptron(1) })
    expect([y, origin.compiled]).toEqual([await plainLoad({ path: perceptron(1) }), true])
    expect(statSync(entriesIn(dir)[0]!).isDirectory()).toBe(true)
  })

  it('is left where a link led to', async () => {
    const precious = ownFolder()
    writeFileSync(join(precious, 'file'), 'precious')
    const dir = await swapped((_, entry) => symlinkSync(precious, entry))
    await cachedLoad(dir, { path: perceptron(1) })
    expect(readFileSync(join(precious, 'file'), 'utf8')).toBe('precious')
  })
})

describe('an entry that nobody may look into or write to, not even its user,', () => {
  it.skipIf(asRoot).each([0, 0o500])('is taken away, and made anew (mode %i)', async (mode) => {
    const dir = ownFolder()
    await cachedLoad(dir, { path: perceptron() })
    const [entry] = entriesIn(dir)
    rmSync(join(entry!, 'model.weights'))
    chmodSync(entry!, mode)
    expect((await cachedLoad(dir, { path: perceptron() })).origin.compiled).toBe(true)
    expect(statSync(entry!).mode & 0o777).toBe(0o700)
  })
})

describe('a model whose file is written again', () => {
  it('is read again, also when its size and time of change are as they were', async () => {
    const folder = CacheFolder.open(ownFolder())
    const path = join(ownFolder(), 'model.onnx')
    const longAgo = new Date(Date.now() - 3_600_000)
    const contents = []
    for (const bytes of ['one', 'two']) {
      writeFileSync(path, bytes)
      utimesSync(path, longAgo, longAgo)
      contents.push(await contentOf(resolveConfig('model', { path }), folder, never))
    }
    expect(contents[0]!.hash).not.toBe(contents[1]!.hash)
    expect(await Promise.all(contents.map((content) => content.isCurrent(never)))).toEqual([false, true])
  })

  it('is not remembered by its state as long as that may not tell', async () => {
    const folder = CacheFolder.open(ownFolder())
    const path = join(ownFolder(), 'model.onnx')
    writeFileSync(path, 'just written')
    await contentOf(resolveConfig('model', { path }), folder, never)
    expect(existsSync(folder.known(path))).toBe(false)
  })
})

describe('a model in memory with weights in files', () => {
  it('is another one where these are others', async () => {
    const [dir, folder, before] = [ownFolder(), ownFolder(), process.cwd()]
    const bytes = readFileSync(perceptronOutside(1))
    const name = /cached-perceptron-outside-1\.bin/.exec(bytes.toString('latin1'))![0]
    onTestFinished(() => process.chdir(before))
    process.chdir(folder)
    for (const seed of [1, 2]) {
      copyFileSync(perceptronOutside(seed).replace('.onnx', '.bin'), join(folder, name))
      const { y, origin } = await cachedLoad(dir, { bytes })
      expect([y, origin.compiled]).toEqual([await plainLoad({ path: perceptronOutside(seed) }), true])
    }
    expect(entriesIn(dir).length).toBe(2)
  })
})

describe('the folder of the cache', () => {
  it('may be removed while an engine has it: what is open stays open, and the next load makes it anew', async () => {
    const dir = ownFolder()
    const engine = new InferenceEngine({ cache: { dir }, verify: 'child' })
    onTestFinished(() => engine.destroy())
    const first = await engine.load('first', { path: perceptron(1) })
    rmSync(join(dir, layout), { recursive: true })
    const second = await engine.load('second', { path: perceptron(2) })
    await modelsCompiled(engine)
    const answers = await Promise.all(
      [first, second].map(async (model) => [
        ...((await model.infer({ x: row() })).y as { data: Float32Array }).data,
      ]),
    )
    expect(answers).toEqual([
      await plainLoad({ path: perceptron(1) }),
      await plainLoad({ path: perceptron(2) }),
    ])
    expect(engine.capabilities().cache).toMatchObject({
      enabled: true,
      models: { second: { reason: expect.stringMatching(/^compiled for this machine/) as string } },
    })
  })

  it('is not used where all may put another one in its place', async () => {
    const dir = ownFolder()
    chmodSync(dir, 0o777)
    const { y, origin, cache } = await cachedLoad(dir, { path: perceptron() })
    expect([y, origin.compiled, existsSync(join(dir, layout))]).toEqual([
      await plainLoad({ path: perceptron() }),
      false,
      false,
    ])
    expect(cache).toMatchObject({
      enabled: false,
      reason: expect.stringContaining('other users may write') as string,
    })
    chmodSync(dir, 0o1777) // as /tmp is
    expect((await cachedLoad(dir, { path: perceptron() })).origin.compiled).toBe(true)
  })

  it.skipIf(!asRoot)("is left alone when it is another user's", async () => {
    const dir = ownFolder()
    await cachedLoad(dir, { path: perceptron() })
    const [entry] = entriesIn(dir)
    chownSync(join(dir, layout), 12_345, 12_345)
    const { y, cache } = await cachedLoad(dir, { path: perceptron() })
    expect(y).toEqual(await plainLoad({ path: perceptron() }))
    expect(cache).toMatchObject({
      enabled: false,
      reason: expect.stringContaining('belongs to user 12345') as string,
    })
    expect(existsSync(entry!)).toBe(true)
  })

  it.skipIf(asRoot)('is read, and not written to, where it may only be read', async () => {
    const dir = ownFolder()
    chmodSync(dir, 0o500)
    const { y, cache } = await cachedLoad(dir, { path: perceptron() })
    expect([y, cache.enabled]).toEqual([await plainLoad({ path: perceptron() }), false])
  })

  it('is read where the permission model of Node.js lets nothing be written', async () => {
    const dir = ownFolder()
    await cachedLoad(dir, { path: perceptron() })
    const permission = process.allowedNodeEnvironmentFlags.has('--permission')
      ? '--permission'
      : '--experimental-permission'
    const flags = [permission, '--allow-fs-read=*', '--allow-worker', '--allow-addons', '--no-warnings']
    const loaded = await loadElsewhere(dir, perceptron(), {}, { flags }).loaded
    expect([loaded?.compiled, loaded?.children, loaded?.y]).toEqual([
      true,
      0,
      await plainLoad({ path: perceptron() }),
    ])
  })

  it('is a link to a folder elsewhere only if the user has made that one', async () => {
    const [dir, elsewhere] = [ownFolder(), ownFolder()]
    symlinkSync(elsewhere, join(dir, layout))
    const { origin, cache } = await cachedLoad(dir, { path: perceptron() })
    expect([origin.compiled, cache.enabled, readdirSync(elsewhere)]).toEqual([false, false, []])
  })

  it.runIf(process.platform === 'linux')(
    "is in the user's, which is never a place below where the process happens to be",
    () => {
      vi.stubEnv('HOME', '/home/me')
      vi.stubEnv('XDG_CACHE_HOME', '/caches')
      expect(userCacheFolder()).toBe('/caches')
      for (const none of ['', 'relative/caches']) {
        vi.stubEnv('XDG_CACHE_HOME', none)
        expect(userCacheFolder()).toBe('/home/me/.cache')
      }
      for (const home of ['', 'relative']) {
        vi.stubEnv('HOME', home)
        expect(() => userCacheFolder()).toThrow('no home folder')
      }
    },
  )
})

describe('a process that ends by itself while it compiles', () => {
  it('leaves neither a process nor files behind', async () => {
    const dir = ownFolder()
    const { child, loaded } = loadElsewhere(dir, endless(), { exits: true })
    let pid = 0
    child.on('message', (word: { pid?: number }) => (pid = word.pid ?? pid))
    expect(await loaded).toBe(null)
    expect(child.exitCode).toBe(7)
    expect(pid).toBeGreaterThan(0)
    expect(['unfinished', 'locks', 'entries'].map((room) => readdirSync(join(dir, layout, room)))).toEqual([
      [],
      [],
      [],
    ])
    // What is killed takes a moment to be gone.
    await vi.waitFor(
      () =>
        expect(
          existsSync(`/proc/${pid}`) && !readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z '),
        ).toBe(false),
      { timeout: 5000 },
    )
  })
})

describeNative('an entry that is taken away between being looked at and being opened', () => {
  it('is not needed', async () => {
    const dir = ownFolder()
    await cachedLoad(dir, { path: perceptron() }, { executor: 'native' })
    const [entry] = entriesIn(dir)
    const { open } = NativeExecutor.prototype
    const opening = vi.spyOn(NativeExecutor.prototype, 'open').mockImplementation(function (
      this: NativeExecutor,
      ...args
    ) {
      rmSync(entry!, { recursive: true, force: true })
      return open.apply(this, args)
    })
    const { y, origin } = await cachedLoad(dir, { path: perceptron() }, { executor: 'native' })
    expect(opening.mock.calls.map(([, model]) => model)).toEqual([join(entry!, 'model.onnx'), perceptron()])
    opening.mockRestore()
    expect([y, origin]).toEqual([
      await plainLoad({ path: perceptron() }),
      { compiled: false, reason: expect.stringContaining('cannot be opened') as string },
    ])
  })
})

describe.runIf(process.getuid !== undefined)(
  'a folder that another user could put something else in the place of',
  () => {
    it.each([0o777, 0o775])('holds no cache, however deep it lies (mode %i)', (mode) => {
      const open = join(ownFolder(), 'open')
      mkdirSync(join(open, 'own', 'cache'), { recursive: true })
      chmodSync(open, mode)
      expect(() => CacheFolder.open(join(open, 'own', 'cache'))).toThrow(`other users may write to ${open}`)
    })

    it('holds one where it is sticky', () => {
      const open = join(ownFolder(), 'open')
      mkdirSync(open)
      chmodSync(open, 0o1777)
      expect(CacheFolder.open(join(open, 'cache')).root).toBe(join(open, 'cache', layout))
    })

    it.runIf(asRoot)('holds none where a folder above it belongs to another user', () => {
      const foreign = join(ownFolder(), 'foreign')
      mkdirSync(join(foreign, 'own'), { recursive: true })
      chownSync(foreign, 12_345, 12_345)
      expect(() => CacheFolder.open(join(foreign, 'own', 'cache'))).toThrow(
        `${foreign} belongs to user 12345`,
      )
    })

    it('holds none when a link leads there', () => {
      const [open, own] = [join(ownFolder(), 'open'), ownFolder()]
      mkdirSync(join(open, 'cache'), { recursive: true })
      chmodSync(open, 0o777)
      symlinkSync(join(open, 'cache'), join(own, 'link'))
      expect(() => CacheFolder.open(join(own, 'link'))).toThrow(`other users may write to ${open}`)
    })
  },
)

describe('what was read of an entry', () => {
  const entryOf = async () => {
    const dir = ownFolder()
    await cachedLoad(dir, { path: perceptron() }, { executor: 'native' })
    const cache = CacheFolder.open(dir)
    const folder = entriesIn(dir)[0]!
    const manifest = (await readEntry(cache, basename(folder)))!
    return { dir, cache, folder, manifest }
  }

  it('is that until any of its files is another one', async () => {
    const { cache, folder, manifest } = await entryOf()
    expect(isAsRead(cache, manifest)).toBe(true)
    const file = join(folder, manifest.files![0]!.name)
    copyFileSync(file, join(folder, 'copy'))
    renameSync(join(folder, 'copy'), file) // with the same content
    expect(isAsRead(cache, manifest)).toBe(false)
    expect(isAsRead(cache, (await readEntry(cache, manifest.key))!)).toBe(true)
    rmSync(folder, { recursive: true })
    expect(isAsRead(cache, manifest)).toBe(false)
  })

  it.runIf(process.getuid !== undefined)(
    'is not to be believed once others may write to a folder of it, or above it',
    async () => {
      const { dir, cache, folder, manifest } = await entryOf()
      for (const open of [dir, cache.root, folder]) {
        const { mode } = statSync(open)
        chmodSync(open, 0o777)
        expect(isAsRead(cache, manifest)).toBe(false)
        chmodSync(open, mode)
        expect(isAsRead(cache, manifest)).toBe(true)
      }
    },
  )
})

describe('a sealed manifest of a wrong form', () => {
  it.each<[string, (manifest: Record<string, unknown>) => unknown]>([
    ['that is a list', () => []],
    ['whose files are a number', (manifest) => ({ ...manifest, files: 5 })],
    ['without files', (manifest) => ({ ...manifest, files: undefined })],
    ['with a file that is null', (manifest) => ({ ...manifest, files: [null] })],
    [
      'with a file of a size that is no whole number',
      (manifest) => ({ ...manifest, files: [{ name: 'model.onnx', byteLength: 0.5, hash: '', state: '' }] }),
    ],
    ['without a graph', (manifest) => ({ ...manifest, files: [] })],
  ])('is made anew: one %s', async (_, wrong) => {
    const dir = ownFolder()
    await cachedLoad(dir, { path: perceptron() })
    const path = join(entriesIn(dir)[0]!, 'manifest.json')
    const manifest = readSealed<Record<string, unknown>>(path)!
    await writeSealed(path, wrong(manifest), 0o400)
    const { y, origin } = await cachedLoad(dir, { path: perceptron() })
    expect([y, origin.compiled]).toEqual([await plainLoad({ path: perceptron() }), true])
    expect(readSealed<Record<string, unknown>>(path)).toMatchObject({
      key: manifest['key'],
      files: (manifest['files'] as { name: string }[]).map(({ name }) => ({ name })),
    })
  })
})
