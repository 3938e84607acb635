import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { runFixture } from './process/child.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const readme = readFileSync(`${root}README.md`, 'utf8')
const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { scripts: Record<string, string> }
const blocks = [...readme.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, code], index) => ({
  index,
  language: language!,
  code: code!,
  title: code!.split('\n').find((line) => line.trim() !== '' && !line.startsWith('import'))!,
}))

function run(file: string, args: string[]) {
  return promisify(execFile)(file, args, { cwd: root, timeout: 60_000 })
}

describe('README', () => {
  it('has code blocks of known languages only', () => {
    expect(blocks.length).toBeGreaterThan(4)
    expect(['js', 'ts', 'sh', 'text']).toEqual(expect.arrayContaining(blocks.map(({ language }) => language)))
  })

  it.each(blocks.filter(({ language }) => language === 'js' || language === 'ts'))('runs its example "$title"', async ({ index, language, code }) => {
    // Inside the package, where `import 'zerohop'` means this package.
    mkdirSync(`${root}.cache/readme`, { recursive: true })
    const file = `${root}.cache/readme/block-${index}.${language === 'js' ? 'mjs' : 'mts'}`
    writeFileSync(file, code)
    const { stdout } = await run(process.execPath, language === 'js' ? [file] : ['--import', 'tsx', file])
    expect(stdout).not.toBe('')
  })

  it('names only npm scripts that exist', () => {
    const named = [...readme.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name!)
    expect(named.length).toBeGreaterThan(3)
    for (const name of named) expect(Object.keys(scripts)).toContain(name)
  })

  it('gives shell lines that are npm commands of this package', () => {
    const lines = blocks.filter(({ language }) => language === 'sh').flatMap(({ code }) => code.trim().split('\n'))
    for (const line of lines) expect(line).toMatch(/^(npm ci && npm (run demo|test)|npm install [\w -]+|npx zerohop .+)$/)
  })

  it("names every file whose code runs for a plain request on the application's thread, and no others", async () => {
    const { answer, stderr } = await runFixture('way.mjs', '')
    expect(stderr).toBe('')
    const section = readme.slice(readme.indexOf("A request's way"), readme.indexOf('Where the code leaves'))
    const [, way, accounts] = section.split(/```(?:text)?\n/)
    const onTheWay = [...way!.matchAll(/^ *(\S+\.ts)/gm)].map(([, file]) => file!)
    const beside = [...accounts!.matchAll(/`([\w/-]+)`/g)].map(([, file]) => `${file}.ts`)
    expect(accounts!.trim().split(' ', 1)).toEqual([String(beside.length)])
    expect([...onTheWay, ...beside].filter((file) => !file.startsWith('worker-thread/')).sort()).toEqual(answer)
  })

  it('promises a demo that reaches its accuracy', async () => {
    const { stdout } = await run('npm', ['run', '--silent', 'demo'])
    expect(Number(/accuracy: ([\d.]+) %/.exec(stdout)?.[1])).toBeGreaterThanOrEqual(97)
  })
})
