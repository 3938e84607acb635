// Full: it packs and installs an example.
import { spawn } from 'node:child_process'
import {
  appendFileSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { text as allText } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parse } from 'csv-parse/sync'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../support/until.ts'
import { packedExample, startExample } from './packed-example.ts'

const digits = fileURLToPath(new URL('../../examples/digits/', import.meta.url))
const names = readdirSync(`${digits}images`).toSorted()
const settings = { MODEL: `${digits}model.onnx`, LABELS: `${digits}labels.txt` }

describe('the files of a folder', () => {
  let example = ''
  let made = 0

  beforeAll(() => void (example = packedExample('batch-files')))
  afterAll(() => rmSync(example, { recursive: true, force: true }))

  /** A folder with digits under these paths, and where their results go. */
  const folderOf = (paths: readonly string[], type = 'csv') => {
    const folder = mkdtempSync(join(example, 'pictures-'))
    for (const [index, path] of paths.entries()) {
      mkdirSync(join(folder, path, '..'), { recursive: true })
      copyFileSync(`${digits}images/${names[index % names.length]}`, join(folder, path))
    }
    return { folder, results: join(example, `results-${made++}.${type}`) }
  }
  const many = (count: number) =>
    folderOf(Array.from({ length: count }, (_, index) => `${index % 7}/${index}.png`))
  const start = (
    { folder, results }: { folder: string; results: string },
    environment: Readonly<Record<string, string>> = settings,
  ) => startExample(example, 'main.js', environment, { args: [folder, results] })
  /** What a module in the example's folder tells by `tell()`, and all it says. */
  const script = async (code: string): Promise<Record<string, unknown>> => {
    const module = join(example, `script-${made++}.mjs`)
    writeFileSync(module, `const tell = (what) => console.log('told ' + JSON.stringify(what))\n${code}`)
    const { text } = await startExample(example, module, {}).ended()
    return { text, ...(JSON.parse(/^told (.*)$/m.exec(text)?.[1] ?? '{}') as object) }
  }
  const rowsOf = (results: string) => {
    const [header, ...rows] = parse(readFileSync(results)) as string[][]
    expect(header).toEqual(['file', 'label', 'score'])
    return rows.toSorted(([a], [b]) => (a! < b! ? -1 : 1))
  }

  it('are classified, of all folders in it, into CSV and into JSON lines', async () => {
    const paths = names
      .slice(0, 120)
      .map((name, index) => `${index % 3 === 0 ? '' : `some, "folder" ${index % 3}/`}${name}`)
    const { folder, results } = folderOf(paths)
    writeFileSync(join(folder, 'notes.txt'), 'no picture')
    expect(await start({ folder, results }).ended()).toMatchObject({
      code: 0,
      text: expect.stringMatching(/^120 images in .* now 120 in /m),
    })
    const rows = rowsOf(results)
    expect(rows.map(([file]) => file)).toEqual(paths.toSorted())
    const right = rows.filter(([file, label]) => file!.split('/').at(-1)!.startsWith(`${label}-`))
    expect(right.length).toBeGreaterThanOrEqual(116)
    expect(rows.every(([, , score]) => Number(score) > 0.1 && Number(score) <= 1)).toBe(true)

    const lines = results.replace('.csv', '.jsonl')
    await start({ folder, results: lines }).ended()
    const objects = readFileSync(lines, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { file: string; label: string; score: number })
    const byFile = new Map(objects.map((object) => [object.file, object]))
    expect(byFile.size).toBe(objects.length)
    expect(rows.map(([file]) => byFile.get(file!)!.label)).toEqual(rows.map(([, label]) => label))
    for (const [file, , score] of rows) expect(byFile.get(file!)!.score).toBeCloseTo(Number(score), 4)
  })

  it('keep their results when it is stopped and when it is killed, and each has one row in the end', async () => {
    const files = many(1500)
    const stopped = start(files)
    await until(() => (statSync(files.results, { throwIfNoEntry: false })?.size ?? 0) > 1000)
    stopped.child.kill('SIGINT')
    expect(await stopped.ended()).toMatchObject({
      code: 130,
      text: expect.stringMatching(/The same command goes on from here/),
    })
    const kept = rowsOf(files.results)
    expect(kept.length).toBeGreaterThan(20)
    expect(kept.length).toBeLessThan(1500)

    const killed = start(files)
    const { size } = statSync(files.results)
    await until(() => statSync(files.results).size > size + 1000)
    killed.child.kill('SIGKILL')
    expect(await killed.ended()).toMatchObject({ code: null })
    appendFileSync(files.results, '3/8') // as if it had been killed in the middle of a line

    expect(await start(files).ended()).toMatchObject({ code: 0, text: expect.stringMatching(/now 1500 in /) })
    const rows = rowsOf(files.results)
    expect(rows.map(([file]) => file)).toEqual(
      Array.from({ length: 1500 }, (_, index) => `${index % 7}/${index}.png`).toSorted(),
    )
    expect(new Map(rows.map(([file, label]) => [file, label]))).toEqual(
      new Map([...rows, ...kept].map(([file, label]) => [file, label])),
    )
  })

  it.each(['csv', 'jsonl'])(
    'are gone on with wherever a line of %s was cut, and whatever their names are',
    async (type) => {
      const odd = [
        '"quoted", and more.png',
        'line\u2028separator.png',
        ' space.png',
        '=1+1.png',
        'ä/ö.png',
        ...(type === 'jsonl' ? ['two\nlines.png'] : []),
      ]
      const { text, ...told } = await script(
        `import { readFileSync, writeFileSync } from 'node:fs'
      import { openResults } from './results.js'
      const path = 'cut.${type}'
      const rows = async (files) => {
        const results = await openResults(path)
        const done = [...results.done]
        for (const file of files) await results.add({ file, label: 'a "label", or two', score: 0.5 })
        await results.close()
        return done
      }
      const odd = ${JSON.stringify(odd)}
      await rows(odd)
      const whole = readFileSync(path)
      const wrong = []
      for (let length = 0; length <= whole.length; length++) {
        writeFileSync(path, whole.subarray(0, length))
        const done = await rows([])
        await rows(odd.slice(done.length))
        if (odd.slice(0, done.length).join() !== done.join() || !readFileSync(path).equals(whole)) wrong.push(length)
        if (length === whole.length && done.length !== odd.length) wrong.push('whole')
      }
      tell({ wrong, lengths: whole.length, takes: (await openResults(path)).takes('two\\nlines.png') })`,
      )
      expect(told, String(text)).toEqual({ wrong: [], lengths: expect.any(Number), takes: type === 'jsonl' })
      expect(told['lengths']).toBeGreaterThan(200)
    },
  )

  it('that cannot be classified are listed at the end, and tried again by the next start', async () => {
    const files = folderOf(['a/good.png', 'bad.png', 'cut.png', 'empty.jpg'])
    writeFileSync(join(files.folder, 'bad.png'), 'no picture')
    truncateSync(join(files.folder, 'cut.png'), 100)
    writeFileSync(join(files.folder, 'empty.jpg'), '')
    const { code, text } = await start(files).ended()
    expect(code).toBe(1)
    expect(text).toMatch(/^1 images in /m)
    expect(text).toContain('3 failed, which the same command tries again:')
    expect(text).toMatch(/^ {2}bad\.png: it does not start like any of jpeg, png/m)
    expect(text).toMatch(/^ {2}empty\.jpg: it is empty$/m)
    expect(text).toMatch(/^ {2}cut\.png: \S/m)
    for (const name of ['bad.png', 'cut.png', 'empty.jpg'])
      copyFileSync(`${digits}images/${names[0]}`, join(files.folder, name))
    expect(await start(files).ended()).toMatchObject({
      code: 0,
      text: expect.stringMatching(/^3 images in .* now 4 in /m),
    })
    rmSync(join(files.folder, 'bad.png'))
    expect(await start(files).ended()).toMatchObject({
      code: 0,
      text: expect.stringMatching(/^0 images in .* now 4 in /m),
    })
  })

  it.skipIf(process.platform === 'win32')(
    'of names that CSV cannot hold on a line are listed, too',
    async () => {
      expect(await start(folderOf(['two\nlines.png'])).ended()).toMatchObject({
        code: 1,
        text: expect.stringContaining(
          '  two\\x0alines.png: its name has a line break, which only .jsonl can hold',
        ),
      })
    },
  )

  it('have one row each where two write to one file: who comes second ends before it writes', async () => {
    const { text, ...told } = await script(
      `import { readFileSync } from 'node:fs'
      import { openResults } from './results.js'
      const row = (file) => ({ file, label: 'x', score: 1 })
      const first = await openResults('twice.csv')
      await first.add(row('ä.png'))
      const second = await openResults('twice.csv')
      await first.add(row('b.png'))
      const refused = await second.add(row('b.png')).catch(({ message }) => message)
      await first.add(row('c.png'))
      await Promise.all([first.close(), second.close()])
      tell({ refused, rows: readFileSync('twice.csv', 'utf8') })`,
    )
    expect(told, String(text)).toEqual({
      refused: expect.stringContaining('twice.csv: expected to be written by this process alone'),
      rows: 'file,label,score\nä.png,x,1\nb.png,x,1\nc.png,x,1\n',
    })
  })

  it('are left alone while somebody else is adding to their results', async () => {
    const { text, ...told } = await script(
      `import { appendFileSync, readFileSync } from 'node:fs'
      import { open } from 'node:fs/promises'
      import { openResults } from './results.js'
      const results = await openResults('grows.jsonl')
      await results.add({ file: 'a.png', label: 'x', score: 1 })
      // Another one reads up to here, and this row comes before it cuts what it takes for half a line.
      const prototype = Object.getPrototypeOf(await open('grows.jsonl'))
      const { read } = prototype
      let added = 0
      prototype.read = async function (...args) {
        const found = await read.apply(this, args)
        if (args[0].length > 100 && added++ === 0) appendFileSync('grows.jsonl', '{"file":"b.png"}\\n')
        return found
      }
      await (await openResults('grows.jsonl')).close()
      tell({ rows: readFileSync('grows.jsonl', 'utf8').trim().split('\\n').length })`,
    )
    expect(told, String(text)).toEqual({ rows: 2 })
  })

  it.skipIf(process.platform === 'win32')(
    'are finished when npm passes on the Ctrl-C that they had from the terminal as well',
    async () => {
      const files = many(1500)
      const npm = spawn(
        'npm',
        ['start', '--node-options=--preserve-symlinks', '--', files.folder, files.results],
        {
          cwd: example,
          env: { ...process.env, ...settings },
          stdio: ['ignore', 'pipe', 'ignore'],
          detached: true,
        },
      )
      const said = allText(npm.stdout)
      await until(() => (statSync(files.results, { throwIfNoEntry: false })?.size ?? 0) > 1000)
      process.kill(-npm.pid!, 'SIGINT') // all programs of a terminal have it
      const [, rows] = /^(\d+) images in .*[\n]Stopped/m.exec(await said) ?? []
      expect(rowsOf(files.results).length).toBe(Number(rows))
    },
  )

  it('have no results in a file of somebody else, which is left as it is', async () => {
    const files = folderOf(names.slice(0, 1))
    writeFileSync(files.results, 'name,price\nbread,3')
    expect(await start(files).ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining('Name another file'),
    })
    expect(readFileSync(files.results, 'utf8')).toBe('name,price\nbread,3')
    writeFileSync(files.results, 'file,label,score\na.png,3,0.9\n\0\0\0\n')
    expect(await start(files).ended()).toMatchObject({
      code: 1,
      text: expect.stringMatching(
        /expected rows as they are written here, and one after 1 is not \(Invalid Record Length/,
      ),
    })
    expect(await start({ ...files, results: settings.MODEL }).ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining('expected a file of type .csv or .jsonl'),
    })
    expect(await start(files, {}).ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining('MODEL: expected the path of an ONNX image classifier'),
    })
  })

  it('are taken only as fast as results are written, and shown on a terminal with rate and time left', async () => {
    const { folder } = folderOf(['0.png'])
    for (let index = 1; index < 500; index++) linkSync(join(folder, '0.png'), join(folder, `${index}.png`))
    const { text, ...told } = await script(
      `import { classifyFiles } from './classify-files.js'
      Object.assign(process.stderr, { isTTY: true, columns: 120 })
      let taken = 0, written = 0, most = 0
      const classify = async () => {
        most = Math.max(most, ++taken - written)
        return { label: 'x', score: 1 }
      }
      const results = { done: new Set(['0.png', 'gone.png']), takes: () => true, add: () => new Promise((resolve) => setImmediate(() => resolve(written++))) }
      const { classified, failed } = await classifyFiles({ folder: ${JSON.stringify(folder)}, results, classify, signal: new AbortController().signal })
      tell({ classified, failed, isBounded: most > 32 && most <= 65 })`,
    )
    expect(told, String(text)).toEqual({ classified: 499, failed: 0, isBounded: true })
    expect(text).toMatch(/1\/500 \| -\/s/)
    expect(text).toMatch(/500\/500 \| [\d.]+\/s \| \d+s left/)
  })
})
