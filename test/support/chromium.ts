import { existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'

const executablePath = '/usr/bin/chromium'

/** Whether there is a browser; where there is none, tests say so and are skipped. */
export const hasChromium = existsSync(executablePath)
if (!hasChromium)
  console.log(`There is no ${executablePath}: what pages look like is not tested (apt-get install chromium)`)

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
}

/** An open page, and what went wrong meanwhile. */
export interface OpenPage {
  readonly page: Page
  /** What was said on the console, thrown or refused. */
  readonly complaints: string[]
  /** What was asked for besides the page itself. */
  readonly requests: string[]
}

/** Opens a page that is kept in a file. */
export function openPage(
  browser: Browser,
  html: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const file = join(mkdtempSync(join(tmpdir(), 'zerohop-report-')), 'out.html')
  writeFileSync(file, html)
  return openAt(browser, pathToFileURL(file).href, options)
}

/** Opens the page at an address. */
export async function openAt(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const complaints: string[] = []
  const requests: string[] = []
  page.on('console', (message) => complaints.push(message.text()))
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => {
    if (request.url() !== url) requests.push(request.url())
  })
  await page.goto(url)
  return { page, complaints, requests }
}
