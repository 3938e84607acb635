import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { trials } from '../bench/all-trials.ts'
import { statusOfCode } from '../src/adapters/kserve/exchange.ts'
import { batchReasons } from '../src/options/batching.ts'
import { defaultInline } from '../src/options/engine-options.ts'
import { resolveImageLimits } from '../src/options/image-options.ts'
import { defaultLimitBytes } from '../src/native/staging-pool.ts'
import { defaultMaxBatchSize } from '../src/tensor/metadata.ts'
import { defaultMaxBytes, defaultMaxRequests } from '../src/adapters/processes/process-options.ts'
import { referencePages } from '../scripts/docs/reference.ts'
import { linesOfCode, requestFilesText } from '../scripts/architecture/request-files-text.ts'
import { runFixture } from './process/child.ts'
import { full } from './support/full.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const { scripts, engines, peerDependencies } = JSON.parse(
  readFileSync(`${root}package.json`, 'utf8'),
) as Record<'scripts' | 'engines' | 'peerDependencies', Record<string, string>>

/** What users and contributors read. */
const documents = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  ...(readdirSync(`${root}docs`, { recursive: true }) as string[])
    .filter((file) => file.endsWith('.md') && !file.startsWith('api/'))
    .map((file) => `docs/${file}`),
].map((document) => ({ document, text: readFileSync(root + document, 'utf8') }))
const textOf = (name: string) => documents.find(({ document }) => document === name)!.text
const readme = textOf('README.md')
const textsIn = (folder: string) =>
  documents
    .filter(({ document }) => document.startsWith(folder))
    .map(({ text }) => text)
    .join('\n')
const blocks = documents.flatMap(({ document, text }) =>
  [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, code], index) => ({
    name: `${document.replace(/\W/g, '-')}-${index}`,
    document,
    language: language!,
    code: code!,
    title: code!.split('\n').find((line) => line.trim() !== '' && !line.startsWith('import'))!,
  })),
)

const examples = blocks.filter(({ language }) => language === 'js' || language === 'ts')
/** Modules that another example of the page names: their first line is `// NAME.mjs`. */
const modules = examples.flatMap(({ name, code }) => {
  const [, file] = /^\/\/ ([\w-]+\.mjs)\n/.exec(code) ?? []
  return file === undefined ? [] : [{ name, file, code }]
})

function run(file: string, args: string[]) {
  return promisify(execFile)(file, args, { cwd: root, timeout: 60_000 })
}

const mostRequestFiles = 20
const mostRequestLines = 5_900

describe('README and what it links to', () => {
  it('links to documents and headings that are there', () => {
    const slug = (heading: string) =>
      heading
        .toLowerCase()
        .replace(/[^\w -]/g, '')
        .replaceAll(' ', '-')
    const headings = new Map(
      documents.map(({ document, text }) => [
        document,
        [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => slug(heading!)),
      ]),
    )
    const links = documents.flatMap(({ document, text }) => [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g)].map(([, path, heading]) => ({
      to: path === '' ? document : posix.join(posix.dirname(document), path!), heading,
    }))) // prettier-ignore
    expect(links.map(({ to }) => to)).toEqual(
      expect.arrayContaining(['CONTRIBUTING.md', 'docs/coming-from/triton.md']),
    )
    expect(
      links.filter(
        ({ to, heading }) =>
          !(heading === undefined
            ? headings.has(to) || (to.endsWith('.png') && existsSync(root + to))
            : headings.get(to)?.includes(heading)),
      ),
    ).toEqual([])
  })

  it('is short: README of 250 lines and 15 KB, CONTRIBUTING of 150 lines, at most', () => {
    expect(readme.split('\n').length).toBeLessThanOrEqual(250)
    expect(Buffer.byteLength(readme)).toBeLessThanOrEqual(15 * 1024)
    expect(textOf('CONTRIBUTING.md').split('\n').length).toBeLessThanOrEqual(150)
  })

  it('lists every page of the documentation in docs/README.md', () => {
    const index = textOf('docs/README.md')
    const pages = documents.map(({ document }) => document).filter((document) => /^docs\/.+\//.test(document))
    expect(pages.filter((page) => !index.includes(`](${page.slice('docs/'.length)})`))).toEqual([])
  })

  it('names only files and folders that exist, in docs/internals and CONTRIBUTING.md', () => {
    const pathsIn = (folder: string): string[] =>
      readdirSync(root + folder, { withFileTypes: true })
        .filter(({ name }) => !['node_modules', '.git', '.cache', 'build', 'dist'].includes(name))
        .flatMap((entry) => {
          const path = `${folder}/${entry.name}`
          return entry.isDirectory() ? [`${path}/`, ...pathsIn(path)] : [path]
        })
    const paths = pathsIn('')
    const named = documents
      .filter(({ document }) => /^(docs\/internals\/|CONTRIBUTING)/.test(document))
      .flatMap(({ document, text }) =>
        [...text.matchAll(/`([\w.@-]+\/[\w./@-]*|[\w.-]+\.(?:ts|mjs|md|cc|h|json|gyp))`/g)].map(
          ([, name]) => ({
            document,
            name: name!.replace(/^\.\//, ''),
          }),
        ),
      )
    expect(named.length).toBeGreaterThan(50)
    // Made by a command, of another package, or no path at all.
    const others = /^(docs\/api|build\/|dist\/|@|bench\/results\/|shared\/|package\.json$|zerohop\/|napi\.h$)/
    expect(
      named.filter(({ name }) => !others.test(name) && !paths.some((path) => path.includes(`/${name}`))),
    ).toEqual([])
  })

  it('names only what those files declare, where docs/internals says "`name` in `file`"', () => {
    const named = documents
      .filter(({ document }) => document.startsWith('docs/internals/'))
      .flatMap(({ text }) =>
        [...text.matchAll(/`(\w+)` in `(src\/[\w./-]+\.ts)`/g)].map(([, name, file]) => ({
          name: name!,
          file: file!,
        })),
      )
    expect(named.length).toBeGreaterThan(4)
    expect(
      named.filter(({ name, file }) => !new RegExp(`\\b${name}\\b`).test(readFileSync(root + file, 'utf8'))),
    ).toEqual([])
  })

  it('has code blocks of known languages only', () => {
    expect(blocks.length).toBeGreaterThan(4)
    expect(['js', 'ts', 'sh', 'text']).toEqual(expect.arrayContaining(blocks.map(({ language }) => language)))
  })

  it.runIf(full).each(examples.filter(({ name }) => !modules.some((each) => each.name === name)))(
    'runs the example "$title" of $document',
    async ({ name, language, code }) => {
      // Inside the package, where `import 'zerohop'` means this package.
      mkdirSync(`${root}.cache/readme`, { recursive: true })
      for (const { file, code } of modules) writeFileSync(`${root}.cache/readme/${file}`, code)
      const file = `${root}.cache/readme/${name}.${language === 'js' ? 'mjs' : 'mts'}`
      writeFileSync(file, code)
      const { stdout } = await run(process.execPath, language === 'js' ? [file] : ['--import', 'tsx', file])
      expect(stdout).not.toBe('')
    },
  )

  it.runIf(full)('has examples that compile as strict TypeScript', async () => {
    const folder = `${root}.cache/readme-types`
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    for (const { name, code } of examples) writeFileSync(`${folder}/${name}.mts`, code)
    const options =
      '--ignoreConfig --noEmit --strict --target es2023 --module nodenext --types node --skipLibCheck'
    const files = examples.map(({ name }) => `${folder}/${name}.mts`)
    const compiled = run(process.execPath, [
      `${root}node_modules/typescript/bin/tsc`,
      ...options.split(' '),
      ...files,
    ])
    expect(
      await compiled.then(
        ({ stdout }) => stdout,
        ({ stdout }: { stdout: string }) => stdout,
      ),
    ).toBe('')
  })

  it('is right that CommonJS code can require the package', async () => {
    const code =
      "console.log(typeof require('zerohop').InferenceEngine, typeof require('zerohop/image').decodeImage)"
    const { stdout } = await run(process.execPath, ['--no-warnings', '--input-type=commonjs', '--eval', code])
    expect(stdout).toBe('function function\n')
  })

  it.each([
    'EngineOptions',
    'StagingOptions',
    'WorkerOptions',
    'ProviderPlugin',
    'ModelOptions',
    'FunctionOptions',
    'PipelineConfig',
    'PipelineStep',
    'FunctionInput',
    'FunctionOutput',
    'NonMaxSuppressionOptions',
    'InstanceGroup',
    'ResponseCacheOptions',
    'WarmupOptions',
    'ScaleOptions',
    'PaddingConfig',
    'DynamicBatchingConfig',
    'QueuePolicy',
    'CloseOptions',
    'ServeOptions',
    'ConnectOptions',
    'SpawnOptions',
    'InferOptions',
    'BatchReport',
    'InferManyOptions',
    'ImageOptions',
    'ArrayTarget',
    'LeaseTarget',
    'LeaseOptions',
  ])('has a generated part for %s', (name) => {
    expect(textsIn('docs/reference/')).toMatch(new RegExp(`^<!-- \\w+: ${name}\\b`, 'm'))
  })

  it('has the reference as the sources have it now; npm run docs:reference writes it', () => {
    for (const [page, text] of referencePages()) expect(textOf(`docs/reference/${page}`)).toBe(text)
  })

  it('lists every code of an error, and no others', () => {
    const known = [...readFileSync(`${root}src/errors.ts`, 'utf8').matchAll(/^ {2}(ERR_\w+): '/gm)].map(
      ([, code]) => code!,
    )
    expect(known.length).toBeGreaterThan(10)
    expect(
      [...textOf('docs/reference/errors.md').matchAll(/^\| `(ERR_\w+)` \|/gm)]
        .map(([, code]) => code!)
        .sort(),
    ).toEqual(known.sort())
  })

  it('has the HTTP statuses that KServe answers with', () => {
    const [, table] = /^## HTTP status\n([^]*?)^## /m.exec(textOf('docs/reference/errors.md'))!
    const rows = [...table!.matchAll(/^\| (\d+) \| (.*) \|$/gm)]
    const listed = rows.flatMap(([, status, codes]) =>
      codes!.split(', ').map((code) => [code.replaceAll('`', ''), Number(status)]),
    )
    expect(Object.fromEntries(listed)).toEqual(statusOfCode)
    expect(listed).toHaveLength(Object.keys(statusOfCode).length)
    const others = ['overload', 'service', 'upload'].flatMap((recipe) => [
      ...textOf(`docs/recipes/${recipe}.md`).matchAll(/\['(ERR_\w+)', (\d+)\]/g),
    ])
    expect(others.length).toBeGreaterThan(15)
    for (const [, code, status] of others)
      expect([code, Number(status)]).toEqual([code, statusOfCode[code as never]])
  })

  it('lists every code of a warning, and no others', () => {
    const told = [
      ...readFileSync(`${root}src/base/warnings.ts`, 'utf8').matchAll(/^ {2}(ZEROHOP_\w+): string$/gm),
    ].map(([, code]) => code!)
    expect(told.length).toBeGreaterThan(10)
    const listed = [...textOf('docs/reference/errors.md').matchAll(/^\| `(ZEROHOP_\w+)` \|/gm)].map(
      ([, code]) => code!,
    )
    expect(listed.sort()).toEqual(told.sort())
  })

  it('lists every reason of a batch, and no others', () => {
    const [, sentence] = /^`reason` is ([^]*?)\.$/m.exec(textOf('docs/guide/batching.md'))!
    expect([...sentence!.matchAll(/`(\w+)`/g)].map(([, reason]) => reason).sort()).toEqual(
      [...batchReasons].sort(),
    )
  })

  const { limitInputPixels, limitInputBytes } = resolveImageLimits({})
  const mebibytes = (bytes: number) => `${bytes / 2 ** 20} MiB`
  it.each([
    ['inline', `\`{ maxUs: ${defaultInline.maxUs}, loopShare: ${defaultInline.loopShare} }\``],
    ['staging.limitBytes', mebibytes(defaultLimitBytes)],
    ['defaultMaxBatchSize', `${defaultMaxBatchSize}`],
    ['serve.maxRequests', `${defaultMaxRequests}`],
    ['serve.maxBytes', mebibytes(defaultMaxBytes)],
    ['limitInputPixels', `${limitInputPixels}`.replace(/\B(?=(\d{3})+$)/g, ' ')],
    ['limitInputBytes', mebibytes(limitInputBytes)],
  ])('is right about the default of %s', (option, standard) => {
    const [, told] = new RegExp(`^### \`${option}\`\n\n.*default: (.*)$`, 'm').exec(
      textsIn('docs/reference/'),
    )!
    expect(told!.split(';')[0]).toBe(standard)
  })

  it('asks for the versions that package.json asks for', () => {
    const least = (range: string) => /^>=(\S+)/.exec(range)![1]!
    const leastOf = (name: string) => least(peerDependencies[name]!)
    expect(readme).toContain(`Node >= ${least(engines['node']!)}.`)
    const installing = textOf('docs/guide/installing.md')
    expect(installing).toContain(`\`onnxruntime-node\` (>= ${leastOf('onnxruntime-node')})`)
    expect(installing).toContain(`\`npm install sharp\` (>= ${leastOf('sharp')},`)
    expect(installing).toContain(
      `\`npm install @julusian/jpeg-turbo\` (${leastOf('@julusian/jpeg-turbo')} for Node ${least(engines['node']!).split('.')[0]},`,
    )
    expect(textOf('docs/reference/statistics.md')).toContain(
      `\`npm install prom-client\` (${leastOf('prom-client')})`,
    )
  })

  it('names only npm scripts that exist', () => {
    const named = documents.flatMap(({ text }) =>
      [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name!),
    )
    expect(named.length).toBeGreaterThan(3)
    for (const name of named) expect(Object.keys(scripts)).toContain(name)
  })

  it('names only trials that exist', () => {
    const named = documents.flatMap(({ text }) =>
      [...text.matchAll(/npm run bench -- ([a-z][a-z-]*)/g)].map(([, name]) => name!),
    )
    expect(named.length).toBeGreaterThan(10)
    expect([...new Set(named)].filter((name) => !Object.hasOwn(trials, name))).toEqual([])
  })

  it('gives shell lines that are npm commands of this package', () => {
    const lines = blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ code }) => code.trim().split('\n'))
    for (const line of lines)
      expect(line).toMatch(/^(npm ci && npm (run demo|test)|npm install [\w -]+|npx zerohop .+)$/)
  })

  it('names every file whose code runs for a plain request, and no others', async () => {
    const { answer, stderr } = await runFixture('way.mjs', '', ['--no-warnings'], {
      ZEROHOP_EXECUTOR: 'native',
    })
    expect(stderr).toBe('')
    const architecture = textOf('docs/internals/architecture.md')
    const files = answer as string[]
    expect(architecture).toContain(`\`\`\`text\n${requestFilesText(files)}\n\`\`\``)
    // Both may only fall: a request that runs through fewer files and lines is followed more easily.
    expect(files.length).toBeLessThanOrEqual(mostRequestFiles)
    expect(files.reduce((sum, file) => sum + linesOfCode(file), 0)).toBeLessThanOrEqual(mostRequestLines)
  })

  it.runIf(full)('promises a demo that reaches its accuracy', async () => {
    const { stdout } = await run('npm', ['run', '--silent', 'demo'])
    expect(Number(/accuracy: ([\d.]+) %/.exec(stdout)?.[1])).toBeGreaterThanOrEqual(97)
  })
})
