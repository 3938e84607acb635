import { expect, it, onTestFinished, vi } from 'vitest'
import * as imageDecoders from '../../src/features/image/image-decoders.ts'
import * as rgbPipeline from '../../src/features/image/rgb-pipeline.ts'
import { InferenceError } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { ownEngine } from '../support/open.ts'

const config = (image?: object) => ({
  path: small.identity('float32', [3, 4, 4]),
  maxBatchSize: 4,
  inputs: [{ name: 'x', ...(image && { image }) }],
})

it('a model that takes images is not loaded where sharp is missing, and any other is', async () => {
  const engine = ownEngine()
  const missing = new InferenceError(
    'ERR_NATIVE_LOAD',
    'sharp, which decodes the images, cannot be loaded. Install it: npm install sharp',
    { name: 'sharp' },
  )
  const loadSharp = vi.spyOn(imageDecoders, 'loadSharp').mockImplementation(() => Promise.reject(missing))
  onTestFinished(() => void loadSharp.mockRestore())
  await expect(engine.load('m', config({}))).rejects.toMatchObject({
    code: 'ERR_NATIVE_LOAD',
    model: 'm',
    argument: 'sharp',
    message: expect.stringMatching(/^inputs\[0\]\.image of model 'm'.*npm install sharp/),
  })
  expect(engine.models().map(({ name, state }) => [name, state])).not.toContainEqual(['m', 'ready'])
  await engine.load('other', config())
})

it('a model that takes images has had some decoded when it is ready, of the formats that it lets in', async () => {
  const engine = ownEngine()
  const decodeRgb = vi.spyOn(rgbPipeline, 'decodeRgb')
  const formats = () =>
    decodeRgb.mock.calls.map(([bytes]) => ((bytes as Uint8Array)[0] === 0xff ? 'jpeg' : 'png'))
  await engine.load('both', config({}))
  expect(new Set(formats())).toEqual(new Set(['jpeg', 'png']))
  decodeRgb.mockClear()
  await engine.load('png', config({ formats: ['png'], limitInputPixels: 10 })) // fewer pixels than the sample has
  expect(new Set(formats())).toEqual(new Set(['png']))
})
