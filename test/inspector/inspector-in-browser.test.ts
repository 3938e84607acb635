// Full: it opens a browser.
import { mkdirSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { inspector, inspectorPage, sendPage, startEvents } from '../../src/adapters/inspector/inspector.ts'
import type { Frame } from '../../src/adapters/inspector/frame.ts'
import { identity } from '../models/small.ts'
import { hasChromium, launch, openAt, type OpenPage } from '../support/chromium.ts'
import { drawnCanvases } from '../support/drawn-canvases.ts'
import { ownEngine } from '../support/open.ts'
import { until } from '../support/until.ts'
import { frameOf, idle, modelOf, windowOf } from './fake-frames.ts'
import { listening } from './inspected-server.ts'

const hostile = `</script><script>alert(1)</script><img src="http://127.0.0.1:9/x" onerror="alert(2)">\u2028'"&`
/** Where pictures go, if somebody wants to see them. */
const pictures = process.env['ZEROHOP_SCREENSHOTS']

/** A page whose frames are given by hand. */
async function shown(
  browser: Browser,
  frames: readonly Frame[],
  options: Parameters<typeof openAt>[2] = {},
): Promise<OpenPage & { send(frame: Frame): void; readonly streams: Set<ServerResponse> }> {
  const page = inspectorPage(`Engine of ${hostile}`)
  const streams = new Set<ServerResponse>()
  const tell = (stream: ServerResponse, frame: Frame) => stream.write(`data: ${JSON.stringify(frame)}\n\n`)
  const url = await listening((request, response) => {
    if (request.headers.accept !== 'text/event-stream') return sendPage(response, page, false)
    startEvents(response)
    streams.add(response)
    response.once('close', () => streams.delete(response))
    for (const frame of frames) tell(response, frame)
  })
  const opened = await openAt(browser, `${url}/inspector`, options)
  onTestFinished(() => opened.page.context().close())
  await stateIs(opened.page, 'live')
  return { ...opened, streams, send: (frame) => streams.forEach((stream) => tell(stream, frame)) }
}

/** Two minutes of two models, with a gap. */
function minutes(name = 'squeezenet'): Frame[] {
  return Array.from({ length: 110 }, (_, second) => {
    const answered = 900 + 300 * Math.sin(second / 12)
    const window = windowOf(answered, {
      queueUs: 300 + 2 * second,
      latency: {
        p50Us: 900 + 3 * second,
        p90Us: 1800 + 4 * second,
        p99Us: 4200 + 900 * Math.sin(second / 5),
        maxUs: 9000,
      },
    })
    const [waiting, running] = [Math.round(20 + 15 * Math.sin(second / 9)), 1 + (second % 2)]
    const models = [
      modelOf(name, { window, waiting, running }),
      modelOf('resnet', { state: 'loading', serves: false, window: null, instances: [], instanceCount: 0 }),
    ]
    return frameOf(1_700_000_000_000 + 1000 * (second + (second > 60 ? 8 : 0)), models, {
      all: { waiting, running, window },
      residentBytes: 141e6 + 2e5 * second,
    })
  })
}

async function picture(page: Page, name: string): Promise<void> {
  if (pictures === undefined) return
  mkdirSync(pictures, { recursive: true })
  await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true })
}

// Not by `waitForFunction`, which the policy of the page forbids: it evaluates text.
const stateIs = (page: Page, state: string) => page.locator(`#status[data-state=${state}]`).waitFor()
const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
const rowsOf = (page: Page, id: string) => page.locator(`#${id} tbody tr`).allInnerTexts()

describe.skipIf(!hasChromium)('the page of an inspector in Chromium', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launch()
  })
  afterAll(() => browser?.close())

  it.each([
    ['two models', minutes()],
    ['names that are HTML', minutes(hostile)],
    ['names without a space', minutes('m'.repeat(120))],
    [
      'an engine without models',
      [frameOf(0, [], { all: idle, running: [], ended: [], workers: [], staging: [], eventLoopDelay: null })],
    ],
    [
      '100 models',
      [
        frameOf(
          0,
          Array.from({ length: 100 }, (_, index) => modelOf(`model-${index}`)),
          { modelsLeftOut: 7 },
        ),
      ],
    ],
  ] as [string, Frame[]][])(
    'shows %s at every width, in light and dark, and complains of nothing',
    async (what, frames) => {
      const { page, complaints, requests } = await shown(browser, frames, {
        viewport: { width: 1280, height: 900 },
      })
      expect({ overflow: await overflow(page), charts: await drawnCanvases(page) }).toEqual({
        overflow: 0,
        charts: 7,
      })
      await picture(page, `${what}-desktop-light`)
      await page.emulateMedia({ colorScheme: 'dark' })
      await picture(page, `${what}-desktop-dark`)
      await page.setViewportSize({ width: 360, height: 800 })
      await expect
        .poll(() =>
          page.evaluate(
            "[...document.querySelectorAll('canvas')].every((canvas) => canvas.clientWidth < 360)",
          ),
        )
        .toBe(true)
      expect({ overflow: await overflow(page), charts: await drawnCanvases(page) }).toEqual({
        overflow: 0,
        charts: 7,
      })
      await picture(page, `${what}-phone-dark`)
      await page.emulateMedia({ colorScheme: 'light' })
      await picture(page, `${what}-phone-light`)
      expect({ complaints, requests }).toEqual({ complaints: [], requests: [] })
      expect(await page.locator('img').count()).toBe(0)
    },
  )

  it('tells of models, batches, reasons, failures and memory', async () => {
    const { page } = await shown(browser, minutes())
    expect(await rowsOf(page, 'models')).toEqual([
      expect.stringMatching(
        /^squeezenet version 1\s+1\s+\d+\s+\d+\s+[\d,]+\s+5 of 8\s+1\.23 ms\s+[\d.]+ ms\s+12,000\s+9$/,
      ),
      expect.stringMatching(/^resnet version 1, not asked by name loading\s+0\s/),
    ])
    const batches = await rowsOf(page, 'batches')
    expect(batches.slice(0, 3)).toEqual([
      expect.stringMatching(/#103\s+8\s+8\s+full\s+digits_0\s+running\s+–\s+–$/),
      expect.stringMatching(/#102\s.*failed\s+–\s+–$/),
      expect.stringMatching(/#101\s.*done\s+560 µs\s+640 µs$/),
    ])
    expect(batches).toHaveLength(20)
    expect((await rowsOf(page, 'sizes')).map((row) => row.split(/\s+/)[0])).toEqual(['2', '8'])
    expect(await rowsOf(page, 'reasons')).toEqual([
      expect.stringMatching(/^idle\s+an instance[^]*50 %$/),
      expect.stringMatching(/^full\s+no further[^]*50 %$/),
    ])
    expect(await rowsOf(page, 'failures')).toEqual([expect.stringMatching(/^queueFull\s+330\s+100 %$/)])
    expect(await rowsOf(page, 'staging')).toEqual([
      expect.stringMatching(/^of models\s+native\s+2\.00 MB\s+3\.00 MB\s+4\.00 MB\s+268 MB\s+0$/),
    ])
    expect(await page.locator('#uptime-figure').innerText()).toBe('61.7 min')
  })

  it('shows the model that is chosen, also when others come and go', async () => {
    const { page, send } = await shown(browser, minutes())
    const last = minutes().at(-1)!
    await page.getByLabel('Figures of').selectOption('squeezenet · version 1')
    const answered = page.locator('#answered-figure')
    const before = await answered.innerText()
    send({
      ...last,
      atMs: last.atMs + 1000,
      all: idle,
      models: [modelOf('newcomer'), modelOf('squeezenet', { window: windowOf(50) })],
    })
    await answered.and(page.getByText('50', { exact: true })).waitFor()
    expect(before).not.toBe('50')
    expect(await page.locator('#model').inputValue()).toBe('squeezenet · version 1')
    send({
      ...last,
      atMs: last.atMs + 2000,
      all: { ...idle, window: windowOf(70) },
      models: [modelOf('newcomer')],
    })
    await answered.and(page.getByText('70', { exact: true })).waitFor() // of all, as it is gone
  })

  it('tells the figures of a moment under the pointer, and of others by arrow keys', async () => {
    const { page, complaints } = await shown(browser, minutes(), { viewport: { width: 360, height: 800 } })
    const told = page.locator('#latency-plot .tooltip')
    expect(await told.isVisible()).toBe(false)
    await page.locator('#latency-plot').focus()
    await page.keyboard.press('ArrowLeft')
    const first = await told.innerText()
    expect(first).toMatch(/p99\s+[\d.]+ ms\s+p90\s+[\d.]+ ms\s+p50\s+[\d.]+ ms$/)
    await page.keyboard.press('ArrowLeft')
    expect(await told.innerText()).not.toBe(first)
    await page.keyboard.press('Tab')
    expect(await told.isVisible()).toBe(false)
    expect({ overflow: await overflow(page), complaints }).toEqual({ overflow: 0, complaints: [] })
  })

  it('says that it has lost its engine, and comes back', async () => {
    const { page, streams } = await shown(browser, minutes())
    streams.forEach((stream) => stream.destroy())
    await stateIs(page, 'lost')
    await stateIs(page, 'live') // by the browser itself
    expect(streams.size).toBe(1)
  })

  it('asks for nothing while it is not seen', async () => {
    const { page, streams } = await shown(browser, minutes())
    await page.evaluate(
      "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true }); document.dispatchEvent(new Event('visibilitychange'))",
    )
    await until(() => streams.size === 0)
    expect(await page.locator('#status').innerText()).toBe('Paused while it is not seen')
    await page.evaluate(
      "delete document.visibilityState; document.dispatchEvent(new Event('visibilitychange'))",
    )
    await stateIs(page, 'live')
  })

  it('would not run a script that got into it all the same, and cannot be framed', async () => {
    const { text, policy } = inspectorPage('Engine')
    const taken = text.replace(
      '<main>',
      '<main><script>document.title = "taken"</script><img src="x" onerror="document.title = \'taken\'">',
    )
    const url = await listening((request, response) => {
      if (request.url !== '/outer') return sendPage(response, { text: taken, policy }, false)
      response.setHeader('content-type', 'text/html')
      response.end('<iframe src="/inspector"></iframe>')
    })
    const { page } = await openAt(browser, `${url}/inspector`)
    expect(await page.title()).toBe('Engine')
    await page.goto(`${url}/outer`)
    expect(page.frames().map((frame) => frame.url())).toEqual([
      `${url}/outer`,
      'chrome-error://chromewebdata/',
    ])
    await page.context().close()
  })

  it('follows a real engine under any path', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    await engine.load('digits <b>', { path: identity('float32'), maxBatchSize: 4 })
    const url = await listening(inspector(engine, { path: '/admin/engine', intervalMs: 100 }))
    const { page, complaints } = await openAt(browser, `${url}/admin/engine/?token=1`)
    onTestFinished(() => page.context().close())
    await stateIs(page, 'live')
    await Promise.all(Array.from({ length: 8 }, () => engine.infer('digits <b>', { x: new Float32Array(4) })))
    await page.locator('#sizes tbody .bar').first().waitFor()
    expect((await rowsOf(page, 'models'))[0]).toContain('digits <b>')
    expect(complaints).toEqual([])
  })
})
