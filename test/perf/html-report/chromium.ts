import { existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core'

const executablePath = '/usr/bin/chromium'

/** Whether there is a browser; where there is none, tests say so and are skipped. */
export const hasChromium = existsSync(executablePath)
if (!hasChromium) console.log(`There is no ${executablePath}: what reports look like is not tested (apt-get install chromium)`)

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
}

/** A page opened from a file, and what went wrong meanwhile. */
export interface OpenPage {
  readonly page: Page
  /** What was said on the console, thrown or refused. */
  readonly complaints: string[]
  /** What was asked for besides the file itself. */
  readonly requests: string[]
}

export async function openPage(browser: Browser, html: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  const file = join(mkdtempSync(join(tmpdir(), 'zerohop-report-')), 'out.html')
  writeFileSync(file, html)
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
    if (request.url() !== pathToFileURL(file).href) requests.push(request.url())
  })
  await page.goto(pathToFileURL(file).href)
  return { page, complaints, requests }
}
