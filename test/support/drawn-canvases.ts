import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** How many canvases there are, each of which shows something: lines and text of many shades. */
export async function drawnCanvases(page: Page): Promise<number> {
  const shades = await page.evaluate<
    number[]
  >(`[...document.querySelectorAll('.plot canvas')].map((canvas) => {
    const { width, height } = canvas
    const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true })
    copy.drawImage(canvas, 0, 0)
    return new Set(new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer)).size
  })`)
  expect(shades.filter((count) => count < 20)).toEqual([])
  return shades.length
}
