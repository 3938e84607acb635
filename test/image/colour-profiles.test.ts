import sharp from 'sharp'
import { expect, it } from 'vitest'
import { decodeImage } from '../../src/features/image/exports.ts'

const size = { width: 8, height: 8, dtype: 'uint8' } as const
const [red, green, blue] = [200, 40, 90]
const plain = sharp({
  create: { width: 8, height: 8, channels: 3, background: { r: red, g: green, b: blue } },
})
const firstOf = async (file: Buffer, options = {}) => {
  const { data } = await decodeImage(file, { ...size, ...options })
  return [0, 64, 128].map((at) => data[at]!)
}

it.each(['png', 'jpeg', 'webp'] as const)(
  'a colour profile is what colours go to sRGB by, unless it is to be ignored: %s',
  async (format) => {
    const file = await plain.clone().withIccProfile('p3').toFormat(format, { quality: 100 }).toBuffer()
    const asStored = [...(await sharp(file, { ignoreIcc: true }).raw().toBuffer()).subarray(0, 3)]
    const found = await firstOf(file, { ignoreIcc: true })
    expect(found.every((value, channel) => Math.abs(value - asStored[channel]!) <= 2)).toBe(true)
    const converted = await firstOf(file)
    expect(
      Math.max(...converted.map((value, channel) => Math.abs(value - [red, green, blue][channel]!))),
    ).toBeLessThanOrEqual(4)
    expect(Math.max(...converted.map((value, channel) => Math.abs(value - found[channel]!)))).toBeGreaterThan(
      4,
    )
  },
)

it('ignoreIcc is true or false', async () => {
  await expect(decodeImage(Buffer.alloc(1), { ...size, ignoreIcc: 1 as never })).rejects.toMatchObject({
    code: 'ERR_INVALID_ARG',
    argument: 'ignoreIcc',
    expected: 'true or false',
  })
})
