import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, readdirSync, renameSync, statSync, utimesSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { readSealed, writeSealed } from '../../src/models/compiled-models/cache-folder.ts'
import { featuresOf, keyOf, type MadeFor } from '../../src/models/compiled-models/compiled-form.ts'
import type { Manifest } from '../../src/models/compiled-models/entry.ts'
import { settledAfterMs } from '../../src/models/compiled-models/model-content.ts'
import { cachedLoad, compiledFolder, entriesIn, ownFolder, plainLoad } from './cached.ts'
import { loadElsewhere } from './in-processes.ts'
import { largePerceptron, perceptron } from './models.ts'

const asRoot = process.getuid?.() === 0
const layout = 'compiled-models-v1'
const otherUser = 12_345

/** Copies a cache, without write permission, into a folder that every user may enter. */
function readOnlyCopy(dir: string, keepsTimes = true): string {
  const copy = ownFolder()
  chmodSync(copy, 0o755)
  execFileSync('cp', [keepsTimes ? '-a' : '-r', join(dir, layout), copy])
  execFileSync('chmod', ['-R', 'a+rX,a-w', join(copy, layout)])
  onTestFinished(() => void execFileSync('chmod', ['-R', 'u+w', join(copy, layout)]))
  return copy
}

/** All that lies in a folder, with its times. */
const listed = (dir: string) =>
  execFileSync('find', [dir, '-printf', '%p %s %T@ %C@ %m\n'], { encoding: 'utf8' })

/** The files of a model that was written a minute ago. */
function modelOf(source: string, folder = ownFolder()): string {
  const path = join(folder, 'model.onnx')
  copyFileSync(source, path)
  const minuteAgo = new Date(Date.now() - 60_000)
  utimesSync(path, minuteAgo, minuteAgo)
  chmodSync(folder, 0o755)
  return path
}

/** Loads a model so that the hash of its file is kept, which is not that of one that changed a moment ago. */
async function compiledInto(dir: string, path: string): Promise<void> {
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 2 * settledAfterMs)
  await cachedLoad(dir, { path })
  clock.mockRestore()
  expect(readdirSync(join(dir, layout, 'known'))).toHaveLength(1)
}

describe.runIf(asRoot && process.platform === 'linux')(
  'a folder that root has filled, copied elsewhere and made read-only,',
  () => {
    it('has the models of another user, who reads neither them nor their compiled forms in full, unless the copy has other times', async () => {
      const [dir, path] = [ownFolder(), modelOf(largePerceptron())]
      await compiledInto(dir, path)
      const copy = readOnlyCopy(dir)
      const before = listed(copy)
      const loaded = await loadElsewhere(copy, path, {}, { user: otherUser }).loaded
      expect(loaded).toMatchObject({
        compiled: true,
        children: 0,
        warnings: [],
        y: await plainLoad({ path }),
      })
      expect(loaded!.readBytes).toBeLessThan(statSync(path).size / 2)
      expect(listed(copy)).toBe(before)

      const later = readOnlyCopy(dir, false)
      const anHourAgo = new Date(Date.now() - 3_600_000)
      for (const name of ['model.onnx', 'model.weights'])
        utimesSync(join(entriesIn(later)[0]!, name), anHourAgo, anHourAgo)
      const hashed = await loadElsewhere(later, path, {}, { user: otherUser }).loaded
      expect(hashed).toMatchObject({ compiled: true, children: 0, warnings: [] })
      expect(hashed!.readBytes).toBeGreaterThan(statSync(path).size)
    })

    it('is not used where that user may not read it, which says what to do', async () => {
      const dir = await compiledFolder()
      chmodSync(dir, 0o755)
      const loaded = await loadElsewhere(dir, perceptron(), {}, { user: otherUser }).loaded
      expect(loaded).toMatchObject({ compiled: false, y: await plainLoad({ path: perceptron() }) })
      expect(loaded!.reason).toMatch(
        /may not be read: it belongs to root, and its mode is 700; run chmod -R a\+rX /,
      )
    })

    it('is not written to by root either', async () => {
      const copy = readOnlyCopy(await compiledFolder())
      const before = listed(copy)
      const known = await cachedLoad(copy, { path: perceptron(1) })
      expect(known.cache).toMatchObject({
        enabled: true,
        reason: 'compiled models are read from it; nothing is written to it: its mode is 555',
      })
      const other = await cachedLoad(copy, { path: perceptron(2) })
      expect([known.origin.compiled, other.origin.compiled, other.y]).toEqual([
        true,
        false,
        await plainLoad({ path: perceptron(2) }),
      ])
      expect(listed(copy)).toBe(before)
    })
  },
)

describe.runIf(asRoot)('a model that was compiled into a read-only folder', () => {
  it.each([
    ['has another time', (path: string) => path],
    [
      'has the same time and size',
      (path: string, { atime, mtime }: { atime: Date; mtime: Date }) => utimesSync(path, atime, mtime),
    ],
  ])('is not taken for the one that replaces it, which %s', async (_, touch) => {
    const [dir, folder] = [ownFolder(), ownFolder()]
    const path = modelOf(perceptron(1), folder)
    await compiledInto(dir, path)
    const copy = readOnlyCopy(dir)
    const before = statSync(path)
    modelOf(perceptron(2), folder)
    touch(path, before)
    expect(statSync(path).size).toBe(before.size)
    const { y, origin } = await cachedLoad(copy, { path })
    expect([y, origin.compiled]).toEqual([await plainLoad({ path: perceptron(2) }), false])
  })
})

describe('a model whose compiled form was made for', () => {
  /** A cache with the entry of a model, as if it had been made for something else. */
  async function madeElsewhere(change: (made: MadeFor) => Partial<MadeFor>): Promise<string> {
    const dir = await compiledFolder()
    const [entry] = entriesIn(dir)
    const path = join(entry!, 'manifest.json')
    const manifest = readSealed<Manifest>(path)!
    const made = { ...manifest.madeFor, ...change(manifest.madeFor) }
    await writeSealed(path, { ...manifest, madeFor: made, key: keyOf(made) }, 0o400)
    renameSync(entry!, entry!.replace(basename(entry!), keyOf(made)))
    return dir
  }

  const others: [string, (made: MadeFor) => Partial<MadeFor>, string | RegExp][] = [
    [
      'a processor with more',
      ({ processor }) => ({ processor: `${processor} avx1024` }),
      'a processor with avx1024, which this one lacks',
    ],
    [
      'a processor with less',
      ({ processor }) => ({ processor: processor.split(' ').slice(1).join(' ') }),
      /a processor without \S+, which this one has/,
    ],
    ['another version of ONNX Runtime', () => ({ ortVersion: '1.2.3' }), 'ONNX Runtime 1.2.3 (this is '],
    ['the other executor', () => ({ executor: 'other' }), "executor: 'other' (this is '"],
    ['another system', () => ({ system: 'plan9 on mips' }), 'plan9 on mips (this is '],
    [
      'other options',
      ({ options }) => ({ options: { ...options, graphOptimizationLevel: "'basic'" } }),
      'other options (graphOptimizationLevel)',
    ],
  ]

  it.runIf(asRoot).each(others)(
    '%s is served as it is from a read-only folder, which is said',
    async (_, change, why) => {
      const warnings: (Error & { code?: string })[] = []
      const note = (warning: Error) => void warnings.push(warning)
      process.on('warning', note)
      onTestFinished(() => void process.off('warning', note))
      const dir = readOnlyCopy(await madeElsewhere(change))
      const { y, origin, cache } = await cachedLoad(dir, { path: perceptron() })
      expect([y, origin.compiled]).toEqual([await plainLoad({ path: perceptron() }), false])
      expect(origin.reason).toMatch(why)
      expect(cache.models).toEqual({ model: origin })
      const [warning, ...more] = warnings.filter(({ code }) => code === 'ZEROHOP_NOT_COMPILED')
      expect([warning?.message.includes(origin.reason.split(';')[0]!), more]).toEqual([true, []])
    },
  )

  it('something else is compiled again into a folder that can be written to', async () => {
    const dir = await madeElsewhere(() => ({ ortVersion: '1.2.3' }))
    const { y, origin } = await cachedLoad(dir, { path: perceptron() })
    expect([y, origin.compiled, entriesIn(dir).length]).toEqual([
      await plainLoad({ path: perceptron() }),
      true,
      2,
    ])
  })
})

describe('the features of a processor', () => {
  const info = (flags: string) => `processor\t: 0\nflags\t\t: ${flags}\nbugs\t\t: spectre_v1\n`

  it('are those that its kernels are chosen by, whatever else a machine of its kind lists', () => {
    const own = 'fpu sse2 ssse3 avx2 fma avx512f avx512_vnni amx_tile'
    const virtual = `${own.split(' ').reverse().join(' ')} hypervisor md_clear ibrs constant_tsc`
    expect(featuresOf(info(own))).toBe('amx_tile avx2 avx512_vnni avx512f fma sse2 ssse3')
    expect(featuresOf(info(virtual))).toBe(featuresOf(info(own)))
    expect(featuresOf('Features\t: fp asimd evtstrm aes crc32 fphp asimddp sve i8mm bf16 paca\n')).toBe(
      'asimd asimddp bf16 fp fphp i8mm sve',
    )
  })

  it('are unknown where the system does not list them', () => {
    expect([featuresOf(null), featuresOf('model name: x')]).toEqual([null, null])
  })
})
