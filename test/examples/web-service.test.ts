// Full: it packs and installs an example.
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { hasChromium, launch, openAt } from '../support/chromium.ts'
import { hasShared, missingShared, sharedPath } from '../support/shared.ts'
import { packedExample, startExample, type RunningExample } from './packed-example.ts'

/** Where pictures go, if somebody wants to see them. */
const screenshots = process.env['ZEROHOP_SCREENSHOTS']
const image = (name: string) => readFileSync(sharedPath(`images/${name}`))
const squeezenet = {
  MODEL: sharedPath('models/squeezenet/model.onnx'),
  LABELS: sharedPath('models/squeezenet/labels.txt'),
  IMAGE: '{"channels":"bgr"}',
  PORT: '0',
}

interface Answer {
  readonly classes?: readonly { readonly label: string; readonly score: number }[]
  readonly error?: string
}

describe.skipIf(!hasShared)(`the web service${missingShared}`, () => {
  let folder = ''
  let url = ''
  let service: RunningExample
  let browser: Browser | undefined

  const started = async (settings: Readonly<Record<string, string>> = {}) => {
    const running = startExample(folder, 'main.js', { ...squeezenet, ...settings })
    const [, address] = await running.said(/^listening on (\S+),/)
    return { running, address: address! }
  }
  const own = async (settings: Readonly<Record<string, string>>) => {
    const { running, address } = await started(settings)
    onTestFinished(() => void running.child.kill('SIGKILL'))
    return { running, address }
  }
  const post = async (to: string, body: string | Uint8Array<ArrayBuffer>, type = 'image/jpeg') => {
    const response = await fetch(`${to}/classify`, {
      method: 'POST',
      body,
      headers: { 'content-type': type },
    })
    return {
      status: response.status,
      after: response.headers.get('retry-after'),
      answer: (await response.json()) as Answer,
    }
  }
  const metric = async (to: string, pattern: RegExp) => {
    const text = await (await fetch(`${to}/metrics`)).text()
    return Number(
      text
        .split('\n')
        .find((line) => pattern.test(line))
        ?.split(' ')
        .at(-1),
    )
  }

  beforeAll(async () => {
    folder = packedExample('web-service')
    ;({ running: service, address: url } = await started())
    browser = hasChromium ? await launch() : undefined
  })
  afterAll(async () => {
    await browser?.close()
    service?.child.kill('SIGKILL')
    if (folder !== '') rmSync(folder, { recursive: true, force: true })
  })

  it('says what is in pictures', async () => {
    const names = ['goldfish.jpg', 'mug.jpg', 'wolves.jpg', 'bus.jpg']
    const answers = await Promise.all(names.map((name) => post(url, image(name))))
    expect(answers.map(({ answer }) => answer.classes![0]!.label.split(',')[0])).toEqual([
      'goldfish',
      'coffee mug',
      'white wolf',
      'minibus',
    ])
    expect(answers.map(({ answer }) => answer.classes!.length)).toEqual([5, 5, 5, 5])
    expect(await post(url, image('fish.png'), 'image/png')).toMatchObject({
      status: 200,
      answer: { classes: [{ label: expect.stringContaining('tench') }, {}, {}, {}, {}] },
    })
  })

  it('refuses what is too large, and what is no picture', async () => {
    const { address } = await own({ MAX_BYTES: '20000' })
    expect((await post(address, Buffer.alloc(20_001))).status).toBe(413)
    expect((await post(address, 'some text', 'text/plain')).status).toBe(415)
    expect((await post(address, '{}', 'application/json')).status).toBe(415)
    expect(await post(address, 'no picture at all')).toMatchObject({
      status: 415,
      answer: { code: 'ERR_IMAGE_DECODE' },
    })
  })

  it('decodes nothing whose size or format makes little of a file much of a picture', async () => {
    const picture = (side: number) =>
      sharp({ create: { width: side, height: side, channels: 3, background: 'red' } })
    const [avif, huge] = (await Promise.all([
      picture(64).avif().toBuffer(),
      picture(5001).png().toBuffer(),
    ])) as Buffer<ArrayBuffer>[]
    expect((await post(url, avif!, 'image/avif')).status).toBe(415)
    expect(await post(url, avif!)).toMatchObject({
      status: 415,
      answer: { error: expect.stringContaining('heif') },
    }) // whatever it calls itself
    expect(await post(url, huge!, 'image/png')).toMatchObject({
      status: 413,
      answer: { error: expect.stringContaining('25000000 pixels') },
    })
  })

  it('tells a client why it is refused while it sends', async () => {
    const { address } = await own({ MAX_BYTES: '20000' })
    for (let round = 0; round < 5; round++)
      expect((await post(address, Buffer.alloc(8_000_000))).status).toBe(413)
    expect((await fetch(`${address}/classify`, { method: 'POST' })).status).toBe(415)
  })

  it('holds so much of files that come, and has others come back', async () => {
    const { address } = await own({ MAX_BYTES: '1000000', MAX_HELD_BYTES: '1000000' })
    const begun = httpRequest(`${address}/classify`, {
      method: 'POST',
      headers: { 'content-type': 'image/jpeg', 'content-length': '900000' },
      agent: false,
    })
    begun.on('error', () => {}).write('a part of it')
    let refused = await post(address, image('wolves.jpg'))
    while (refused.status === 200) refused = await post(address, image('wolves.jpg')) // the other may come after it
    expect(refused).toMatchObject({
      status: 503,
      after: '1',
      answer: { error: 'Too many files come at once.' },
    })
    begun.destroy()
    while (refused.status === 503) refused = await post(address, image('wolves.jpg'))
    expect(refused.status).toBe(200)
  })

  it('has a client come back that sends too many', async () => {
    const { address } = await own({ MAX_PER_MINUTE: '2' })
    const answers = [
      await post(address, image('mug.jpg')),
      await post(address, image('mug.jpg')),
      await post(address, image('mug.jpg')),
    ]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
    expect(Number(answers[2]!.after)).toBeGreaterThan(0)
  })

  it('has clients come back while too many wait, by what the engine says', async () => {
    const { address } = await own({ MAX_WAITING: '1', TIMEOUT_MS: '50000' })
    const refused: Awaited<ReturnType<typeof post>>[] = []
    while (refused.length === 0) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => post(address, image('fish.png'), 'image/png')),
      )
      refused.push(...answers.filter(({ status }) => status !== 200))
    }
    for (const { status, after, answer } of refused)
      expect({ status, after: Number(after) >= 1, answer }).toMatchObject({
        status: 429,
        after: true,
        answer: { code: 'ERR_QUEUE_FULL' },
      })
  })

  it('drops what a client does not wait for any more', async () => {
    const cancelled = () => metric(url, /^zerohop_request_(rejections|refusals)_total\{.*cancelled/)
    const all = async () =>
      (await (await fetch(`${url}/metrics`)).text())
        .split('\n')
        .filter((line) => /^zerohop_request_(rejections|refusals)_total\{.*cancelled/.test(line))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
    expect(await cancelled()).toBe(0)
    for (let tries = 0; (await all()) === 0 && tries < 50; tries++) {
      const request = httpRequest(`${url}/classify`, {
        method: 'POST',
        headers: { 'content-type': 'image/jpeg' },
        agent: false,
      })
      request.on('error', () => {})
      await new Promise<void>((resolve) => request.end(image('wolves.jpg'), resolve))
      request.destroy()
    }
    expect(await all()).toBeGreaterThan(0)
  })

  it('shows its engine, and its metrics', async () => {
    expect(await (await fetch(`${url}/inspector`)).text()).toContain('The engine of the picture service')
    expect(await metric(url, /^nv_inference_request_success\{/)).toBeGreaterThanOrEqual(5)
    expect(await (await fetch(`${url}/ready`)).json()).toEqual({ state: 'ready' })
  })

  it('answers what it has taken when it is told to stop, and ends', async () => {
    const { running, address } = await own({})
    const look = await fetch(`${address}/inspector`, { headers: { accept: 'text/event-stream' } })
    const answers = Array.from({ length: 20 }, () => post(address, image('bus.jpg')))
    await answers[0]
    running.child.kill('SIGTERM')
    const settled = await Promise.allSettled(answers)
    const statuses = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value.status] : []))
    expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([])
    expect(await running.ended()).toMatchObject({ code: 0 })
    await look.text() // its events have ended, too
  })

  it('does not wait for who sends no more when it is told to stop', async () => {
    const { running, address } = await own({ TIMEOUT_MS: '500' })
    const begun = httpRequest(`${address}/classify`, {
      method: 'POST',
      headers: { 'content-type': 'image/jpeg', 'content-length': '900000', expect: '100-continue' },
      agent: false,
    })
    begun.on('error', () => {}).flushHeaders()
    await once(begun, 'continue') // it waits for the file
    begun.write('a part of it')
    running.child.kill('SIGTERM')
    expect(await running.ended()).toMatchObject({ code: 0 })
  })

  it('says what it needs, where it is not told', async () => {
    const running = startExample(folder, 'main.js', { PORT: '0' })
    expect(await running.ended()).toMatchObject({
      code: 1,
      text: expect.stringContaining('MODEL: expected the path of an ONNX image classifier'),
    })
  })

  it('tells when to come back in whole seconds, as the engine knows it, and nothing of its own faults', async () => {
    const script = `
      import { InferenceError } from 'zerohop'
      import { answerTo } from './answers.js'
      const errors = [['ERR_QUEUE_FULL', { retryAfterMs: 1500 }], ['ERR_CLOSED'], ['ERR_IMAGE_DECODE', { name: 'image.limitInputPixels' }], ['ERR_IMAGE_DECODE'], ['ERR_EXECUTION']]
      const told = errors.map(([code, details]) => answerTo(new InferenceError(code, 'what was wrong', details)))
      console.log('told ' + JSON.stringify(told.map(({ status, headers, body }) => [status, headers['retry-after'] ?? null, body.error])))
      console.log(JSON.stringify(answerTo(new Error('a secret'))))`
    const path = join(folder, 'told.mjs')
    writeFileSync(path, script)
    const { text } = await startExample(folder, path, {}).ended()
    expect(JSON.parse(/^told (.*)$/m.exec(text)![1]!)).toEqual([
      [429, '2', 'what was wrong'],
      [503, '1', 'what was wrong'],
      [413, null, 'what was wrong'],
      [415, null, 'what was wrong'],
      [500, null, 'This was our fault.'],
    ])
    expect(text).not.toContain('a secret')
  })

  describe.skipIf(!hasChromium)('in Chromium', () => {
    const pictures = ['goldfish.jpg', 'mug.jpg', 'wolves.jpg', 'kitten.jpg', 'bus.jpg'].map((name) =>
      sharedPath(`images/${name}`),
    )
    const classified = (page: Page, count: number) =>
      page
        .locator('#pictures [data-state=done]')
        .nth(count - 1)
        .waitFor()
    const labels = (page: Page) => page.locator('#pictures .classes li:first-child span').allInnerTexts()
    const picture = async (page: Page, name: string) => {
      if (screenshots === undefined) return
      mkdirSync(screenshots, { recursive: true })
      await page.screenshot({
        path: `${screenshots}/service-${name}.png`,
        fullPage: !name.startsWith('phone'),
      })
    }

    it.each([
      ['desktop', { viewport: { width: 1280, height: 800 } }],
      [
        'phone',
        { viewport: { width: 360, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
      ],
    ] as const)(
      'classifies several pictures on a %s, in light and dark, without a complaint',
      async (what, options) => {
        const { page, complaints } = await openAt(browser!, `${url}/`, options)
        onTestFinished(() => page.context().close())
        await page.locator('#choose').setInputFiles(pictures)
        await classified(page, 5)
        expect((await labels(page)).map((label) => label.split(',')[0])).toEqual([
          'minibus',
          expect.stringMatching(/cat/),
          'white wolf',
          'coffee mug',
          'goldfish',
        ])
        expect(await page.locator('#summary').innerText()).toBe('5 of 5 done')
        expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
        expect(await page.locator('.camera').isVisible()).toBe(what === 'phone')
        await picture(page, `${what}-light`)
        await page.emulateMedia({ colorScheme: 'dark' })
        await picture(page, `${what}-dark`)
        expect(complaints).toEqual([])
      },
    )

    it('takes pictures that are dropped on it, one that is none, and one from the camera', async () => {
      const { page } = await openAt(browser!, `${url}/`)
      onTestFinished(() => page.context().close())
      await page.evaluate(`{
        const dataTransfer = new DataTransfer()
        const mug = Uint8Array.from(atob('${image('mug.jpg').toString('base64')}'), (character) => character.charCodeAt(0))
        dataTransfer.items.add(new File([mug], 'mug.jpg', { type: 'image/jpeg' }))
        dataTransfer.items.add(new File(['no picture'], '<b>notes</b>.txt', { type: 'text/plain' }))
        document.getElementById('drop').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer }))
      }`)
      await classified(page, 1)
      await page.locator('#pictures [data-state=failed]').waitFor()
      expect(await page.locator('#pictures h2').allInnerTexts()).toEqual(['<b>notes</b>.txt', 'mug.jpg'])
      expect(await page.locator('[data-state=failed] .state').innerText()).toMatch(/Unsupported Media Type/i)
      await page.locator('#camera').setInputFiles(pictures[0]!)
      await classified(page, 2)
    })

    it('has the inspector of its engine behind a link, which follows it', async () => {
      const { page, complaints } = await openAt(browser!, `${url}/`)
      onTestFinished(() => page.context().close())
      await page.getByRole('link', { name: 'Look at the engine' }).click()
      await page.locator('#status[data-state=live]').waitFor()
      await post(url, image('mug.jpg'))
      await page.locator('#sizes tbody .bar').first().waitFor()
      expect(await page.locator('#models tbody').innerText()).toContain('classifier')
      await picture(page, 'inspector')
      expect(complaints).toEqual([])
    })
  })
})
