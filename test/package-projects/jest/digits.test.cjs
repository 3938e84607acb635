const { strictEqual, throws } = require('node:assert/strict')

test('a model is loaded and asked by import(), which Jest takes with an option of Node', async () => {
  if (!process.env.NODE_OPTIONS?.includes('--experimental-vm-modules')) return
  const { InferenceEngine } = await import('zerohop')
  const engine = new InferenceEngine()
  const model = await engine.load('digits', { path: process.env.DIGITS_MODEL })
  const { probabilities } = await model.infer({ image: new Float32Array(64).fill(128) })
  strictEqual(probabilities.dims.join(), '1,10')
  await engine.close()
})

test('require() gives the library or says what to do', () => {
  try {
    strictEqual(typeof require('zerohop').InferenceEngine, 'function')
  } catch (error) {
    throws(() => { throw error }, /await import\('zerohop'\).*--experimental-vm-modules/) // prettier-ignore
  }
})
