// Full: it packs and installs an example.
import { execFileSync, spawn } from 'node:child_process'
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { hasChromium, launch } from '../support/chromium.ts'
import { packedExample, startExample } from './packed-example.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const digits = join(root, 'examples/digits')
const settings = { MODEL: join(digits, 'model.onnx'), LABELS: join(digits, 'labels.txt') }
const three = join(digits, 'images/3-0003.png')

describe('the route handler for Next', () => {
  let folder = ''
  let told: Record<string, unknown> = {}

  // A handler takes a request and gives a response as the web has them: it needs no Next to run.
  beforeAll(async () => {
    folder = packedExample('next')
    writeFileSync(
      join(folder, 'told.mjs'),
      `import { readFile, readdir } from 'node:fs/promises'
      import { GET, POST } from './app/api/classify/route.js'
      import { classifier } from './lib/classifier.js'
      const { IMAGES, MODEL } = process.env
      const ask = async (body, signal) => {
        const response = await POST(new Request('http://localhost/api/classify', { method: 'POST', body, signal }))
        return { status: response.status, ...(response.headers.has('retry-after') && { after: response.headers.get('retry-after') }), ...(response.status === 499 ? {} : await response.json()) }
      }
      delete process.env.MODEL
      const unset = await ask('no picture').catch((error) => error.message)
      process.env.MODEL = MODEL
      const files = (await readdir(IMAGES)).filter((name) => name.includes('-00'))
      const answers = await Promise.all(files.map(async (file) => ask(await readFile(IMAGES + '/' + file))))
      const aborted = new AbortController()
      const answer = ask(await readFile(IMAGES + '/' + files[0]), aborted.signal)
      aborted.abort()
      const gone = await answer
      // They begin to come, and go on.
      const bodies = []
      const endless = () => new ReadableStream({ start: (body) => void bodies.push(body) })
      const coming = Array.from({ length: 100 }, () => POST(new Request('http://localhost/api/classify', { method: 'POST', body: endless(), duplex: 'half' })).then(({ status }) => status))
      const crowded = await ask(await readFile(IMAGES + '/' + files[0]))
      for (const body of bodies) body.close()
      const crowd = await Promise.all(coming)
      console.log('told ' + JSON.stringify({
        unset,
        right: answers.filter(({ status, classes }, index) => status === 200 && classes.length === 5 && classes[0].label === files[index][0]).length / files.length,
        none: await ask('no picture'),
        empty: await ask(undefined),
        tooLarge: await ask(new Uint8Array(10 * 2 ** 20 + 1)),
        gone,
        isKept: (await (await import('./lib/classifier.js?changed')).classifier()) === (await classifier()),
        state: await (await GET()).json(),
        crowded,
        crowd,
        afterwards: await ask(await readFile(IMAGES + '/' + files[0])),
        count: files.length,
      }))
      process.exit()`,
    )
    const { text } = await startExample(folder, 'told.mjs', {
      ...settings,
      IMAGES: join(digits, 'images'),
    }).ended()
    told = JSON.parse(/^told (.*)$/m.exec(text)?.[1] ?? JSON.stringify({ text })) as typeof told
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('says what is in pictures, with five classes each', () => {
    expect(told['right'], String(told['text'])).toBeGreaterThanOrEqual(0.9)
    expect(told['state']).toEqual({ state: 'ready', classified: told['count'] })
  })

  it('refuses what is no picture, and what is too large', () => {
    expect(told['none']).toEqual({
      status: 415,
      error: expect.stringContaining('it does not start like any of'),
    })
    expect(told['empty']).toMatchObject({ status: 415 })
    expect(told['tooLarge']).toEqual({ status: 413, error: 'A picture may have 10485760 bytes.' })
  })

  it('drops what nobody waits for', () => {
    expect(told['gone']).toEqual({ status: 499 })
  })

  it('holds so much of pictures that come, and has others come back', () => {
    expect(told['crowded']).toEqual({ status: 503, after: '1', error: 'Too many pictures come at once.' })
    expect((told['crowd'] as number[]).filter((status) => status === 503)).toHaveLength(49) // 51 of 10 MiB are within 512 MiB
    expect(told['afterwards']).toMatchObject({ status: 200 })
  })

  it('tells what it lacks, tries again after that, and keeps its engine when its modules are evaluated anew', () => {
    expect(told['unset']).toMatch(/^MODEL: expected the path of an ONNX image classifier/)
    expect(told['isKept']).toBe(true)
  })
})

/** Installs Next and builds with it, which takes a minute or two: `ZEROHOP_NEXT=1`. */
describe.skipIf(process.env['ZEROHOP_NEXT'] === undefined)(
  'the example for Next, as its README has it installed (with ZEROHOP_NEXT=1)',
  { timeout: 600_000 },
  () => {
    let folder = ''
    const environment = {
      ...process.env,
      ...settings,
      NEXT_TELEMETRY_DISABLED: '1',
      ONNXRUNTIME_NODE_INSTALL: 'skip',
      NODE_EXTRA_CA_CERTS: process.env['ZEROHOP_TEST_CA_CERTS'],
      NODE_ENV: undefined,
      VITEST: undefined,
    } as unknown as NodeJS.ProcessEnv
    const npm = (...line: string[]) =>
      execFileSync('npm', line, {
        cwd: folder,
        env: environment,
        stdio: ['ignore', 'pipe', 'pipe'],
        encoding: 'utf8',
      })

    /** Runs one of its scripts until the test is over. */
    const served = async (script: string) => {
      // A group of its own: npm starts a shell, and that starts Next.
      const child = spawn('npm', ['run', script, '--', '--port', '0'], {
        cwd: folder,
        env: environment,
        stdio: ['ignore', 'pipe', 'inherit'],
        detached: true,
      })
      onTestFinished(() => void process.kill(-child.pid!, 'SIGKILL'))
      for await (const line of createInterface({ input: child.stdout })) {
        const address = /Local: +(http:\S+)/.exec(line)?.[1]
        if (address !== undefined) return address
      }
      throw new Error(`next ${script} has ended`)
    }
    const classify = async (address: string) =>
      (await fetch(`${address}/api/classify`, { method: 'POST', body: readFileSync(three) })).json()
    const state = async (address: string) =>
      (await fetch(`${address}/api/classify`)).json() as Promise<{ changed?: true; classified: number }>

    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'zerohop-next-'))
      cpSync(join(root, 'examples/next'), folder, {
        recursive: true,
        filter: (path) => !/node_modules|\.next/.test(path),
      })
      const [{ filename }] = JSON.parse(npm('pack', root, '--json', '--ignore-scripts')) as [
        { filename: string },
      ]
      npm('install', `./${filename}`, '--no-audit', '--no-fund', '--prefer-offline')
    }, 600_000)
    afterAll(() => rmSync(folder, { recursive: true, force: true }))

    it('answers in development, by the same engine after its files have changed', async () => {
      const address = await served('dev')
      expect(await classify(address)).toMatchObject({ classes: [{ label: '3' }, {}, {}, {}, {}] })
      const route = join(folder, 'app/api/classify/route.js')
      const source = readFileSync(route, 'utf8')
      appendFileSync(join(folder, 'lib/classifier.js'), '// changed\n')
      writeFileSync(route, source.replace('{ state:', '{ changed: true, state:'))
      let now = await state(address)
      while (now.changed !== true) now = await state(address)
      expect(now.classified).toBe(1)
      writeFileSync(route, source)
    })

    it('builds, answers, and classifies what is chosen on its page', async () => {
      npm('run', 'build')
      const address = await served('start')
      expect(await classify(address)).toMatchObject({ classes: [{ label: '3' }, {}, {}, {}, {}] })
      if (!hasChromium) return
      const browser = await launch()
      onTestFinished(() => browser.close())
      const page = await browser.newPage()
      await page.goto(address)
      await page.locator('input[type=file]').setInputFiles(three)
      await page.getByRole('button', { name: 'Classify' }).click()
      expect(await page.locator('li').first().innerText()).toMatch(/^3\s+\d+\.\d %$/)
    })
  },
)
