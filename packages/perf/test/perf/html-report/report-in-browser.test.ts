// Full: it opens a browser.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PerfResult } from '../../../src/perf/result-schema.ts'
import { comparisonOf } from '../../../src/perf/html-report/comparison.ts'
import { reportOf } from '../../../src/perf/html-report/report.ts'
import { hasChromium, launch, openPage } from '../../../../../test/support/chromium.ts'
import { drawnCanvases } from '../../../../../test/support/drawn-canvases.ts'
import { emptyLevel, levelOf, resultOf, richResult } from './made-results.ts'

const hostile = `</script><script>alert(1)</script><img src="http://127.0.0.1:9/x" onerror="alert(2)">\u2028'"&`

const nonsense = {
  averageUs: NaN,
  standardDeviationUs: Infinity,
  p50Us: 1e-3,
  p90Us: 1e30,
  p95Us: 1e60,
  p99Us: 1e200,
  p999Us: 1e300,
  maxUs: Infinity,
}
const oddLevels = [
  levelOf(1, { inferencesPerSecond: Infinity, cpuCores: NaN, latency: nonsense, eventLoopDelay: nonsense }),
  levelOf(2, {
    requestCount: 1e300,
    inferencesPerSecond: 1e280,
    latencyHistogram: [
      { upToUs: 0, count: 1 },
      { upToUs: 1e300, count: 1e300 },
      { upToUs: Infinity, count: 3 },
    ],
  }),
]

const results: readonly [what: string, result: PerfResult, charts: number][] = [
  ['seven levels', resultOf(), 8],
  ['a bound, failures, a lagging sender and an unstable level', richResult(), 10],
  ['one level', resultOf({ levels: [levelOf(4)] }), 8],
  ['no answered request', resultOf({ levels: [emptyLevel] }), 3],
  ['no level', resultOf({ levels: [] }), 0],
  ['300 levels', resultOf({ levels: Array.from({ length: 300 }, (_, index) => levelOf(index + 1)) }), 8],
  ['numbers that are none, or huge', resultOf({ levels: oddLevels }), 8],
  [
    'names that are HTML',
    resultOf({
      model: hostile,
      settings: { [hostile]: hostile },
      machine: { cpu: hostile },
      levels: [levelOf(1, { failures: { [hostile]: 3 }, batchReasons: { [hostile]: 1 } })],
    }),
    9,
  ],
  [
    'names without a space',
    resultOf({
      model: 'm'.repeat(500),
      settings: { ['s'.repeat(200)]: 'v'.repeat(3000) },
      levels: [levelOf(1, { failures: { ['E'.repeat(120)]: 3 } })],
    }),
    9,
  ],
]

const overflow = (page: Page) => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
const textOf = (page: Page, selector: string) => page.locator(selector).allInnerTexts()

describe.skipIf(!hasChromium)('a report in Chromium', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launch()
  })
  afterAll(() => browser?.close())

  it.each(results)(
    'of %s draws its charts at every width, in light and dark, asks for nothing and complains of nothing',
    async (_, result, charts) => {
      const { page, complaints, requests } = await openPage(browser, reportOf(result), {
        viewport: { width: 1280, height: 800 },
      })
      expect({ overflow: await overflow(page), charts: await drawnCanvases(page) }).toEqual({
        overflow: 0,
        charts,
      })
      await page.setViewportSize({ width: 360, height: 800 })
      await page.emulateMedia({ colorScheme: 'dark' })
      await page.waitForFunction(
        "[...document.querySelectorAll('canvas')].every((canvas) => canvas.clientWidth < 360)",
      )
      expect({ overflow: await overflow(page), charts: await drawnCanvases(page) }).toEqual({
        overflow: 0,
        charts,
      })
      expect({ complaints, requests }).toEqual({ complaints: [], requests: [] })
      await page.context().close()
    },
  )

  it('of several results draws them in one chart', async () => {
    const html = comparisonOf([
      { name: 'before', result: resultOf() },
      {
        name: hostile,
        result: resultOf({ levels: [1, 8, 100].map((level) => levelOf(level, { stable: level < 100 })) }),
      },
    ])
    const { page, complaints, requests } = await openPage(browser, html, {
      viewport: { width: 360, height: 800 },
    })
    expect({
      overflow: await overflow(page),
      charts: await drawnCanvases(page),
      complaints,
      requests,
    }).toEqual({ overflow: 0, charts: 7, complaints: [], requests: [] })
    await page.context().close()
  })

  it('shows what is typed into a name, and runs none of it', async () => {
    const { page, complaints } = await openPage(browser, reportOf(resultOf({ model: hostile })))
    expect((await page.title()).replaceAll(/\s+/g, ' ')).toContain(
      '</script><script>alert(1)</script><img src=',
    )
    expect(await textOf(page, 'h1')).toEqual([expect.stringContaining('onerror="alert(2)"')])
    expect(await page.locator('img').count()).toBe(0)
    expect(complaints).toEqual([])
    await page.context().close()
  })

  it('would not run a script that got into it all the same', async () => {
    const { page } = await openPage(
      browser,
      reportOf(resultOf()).replace(
        '<main>',
        '<main><script>document.title = "taken"</script><img src="x" onerror="document.title = \'taken\'">',
      ),
    )
    expect(await page.title()).toBe('Performance of squeezenet')
    await page.context().close()
  })

  it('is dark in the dark, and light on paper', async () => {
    const { page } = await openPage(browser, reportOf(resultOf()), { colorScheme: 'dark' })
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
    const pixels = () => page.evaluate<string>("document.querySelector('#curve-plot canvas').toDataURL()")
    const [dark, darkPixels] = [await background(), await pixels()]
    const redrawn = (before: string) =>
      page.waitForFunction(
        "(before) => document.querySelector('#curve-plot canvas').toDataURL() !== before",
        before,
      )
    await page.emulateMedia({ colorScheme: 'light' })
    await redrawn(darkPixels)
    const [light, lightPixels] = [await background(), await pixels()]
    expect(light).not.toBe(dark)
    await page.emulateMedia({ colorScheme: 'dark' })
    await redrawn(lightPixels)
    await page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(await background()).toBe(light)
    expect(await pixels()).toBe(lightPixels)
    expect(await page.locator('details:not([open])').count()).toBe(0)
    await page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(await pixels()).toBe(darkPixels)
    await page.context().close()
  })

  it('shows the level that is chosen, as a chart and as a table', async () => {
    const { page, complaints } = await openPage(browser, reportOf(resultOf()))
    const cells = () =>
      page.evaluate<string[]>(
        "[...document.querySelectorAll('#batches-table tbody th')].map((cell) => cell.textContent)",
      )
    const pixels = () => page.evaluate<string>("document.querySelector('#batches-plot canvas').toDataURL()")
    const [cellsAtPeak, pixelsAtPeak] = [await cells(), await pixels()]
    await page.getByLabel('Level', { exact: true }).selectOption('concurrency 1')
    expect(cellsAtPeak).toEqual(['1', '2', '4', '6', '8'])
    expect(await cells()).toEqual(['1', '2'])
    expect(await pixels()).not.toBe(pixelsAtPeak)
    expect(complaints).toEqual([])
    await page.context().close()
  })

  it('tells the figures of the point under the pointer, and of the next by an arrow key', async () => {
    const { page } = await openPage(browser, reportOf(resultOf()), { viewport: { width: 360, height: 800 } })
    const told = page.locator('#percentiles-plot .tooltip')
    expect(await told.isVisible()).toBe(false)
    await page.locator('#percentiles-plot .u-over').hover({ position: { x: 5, y: 40 } })
    expect(await told.innerText()).toMatch(/^Concurrency: 1\s+max\s+2\.89 ms\s+p99\.9/)
    await page.locator('#percentiles-plot').focus()
    await page.keyboard.press('ArrowRight')
    expect(await told.innerText()).toMatch(/^Concurrency: 2\s/)
    for (let press = 0; press < 9; press++) await page.keyboard.press('ArrowRight')
    expect(await told.innerText()).toMatch(/^Concurrency: 64\s/)
    expect(await overflow(page)).toBe(0)
    await page.keyboard.press('Tab')
    expect(await told.isVisible()).toBe(false)
    await page.context().close()
  })

  it('follows the width of its window', async () => {
    const { page } = await openPage(browser, reportOf(resultOf()), { viewport: { width: 1280, height: 800 } })
    await page.setViewportSize({ width: 400, height: 800 })
    await page.waitForFunction(
      "document.querySelector('#curve-plot canvas').getBoundingClientRect().width < 400",
    )
    expect(await overflow(page)).toBe(0)
    await page.context().close()
  })

  it('has one heading for each section, a caption for each table and a name for each chart', async () => {
    const { page } = await openPage(browser, reportOf(richResult()))
    const counts = await page.evaluate<Record<string, number>>(
      `Object.fromEntries(['h1', 'section', 'section > h2', 'table', 'table > caption', '.plot', '.plot[role=img][aria-label]', 'th:not([scope])', 'select:not(#level)'].map((selector) => [selector, document.querySelectorAll(selector).length]))`,
    )
    expect(counts).toMatchObject({
      h1: 1,
      section: 9,
      'section > h2': 9,
      '.plot': 10,
      '.plot[role=img][aria-label]': 10,
      'th:not([scope])': 0,
      'select:not(#level)': 0,
    })
    expect(counts['table > caption']).toBe(counts['table'])
    expect(
      await page.evaluate(
        "[...document.querySelectorAll('nav a')].every((link) => document.querySelector(link.getAttribute('href')) !== null)",
      ),
    ).toBe(true)
    await page.context().close()
  })
})
