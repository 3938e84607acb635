// A program: says which execution providers are built into ONNX Runtime, or tries the one that its argument names, and tells its
// parent what came of it.
import { Runtime, identityModel } from './onnxruntime.ts'

const [provider] = process.argv.slice(2)
process.once('disconnect', () => process.exit()) // the parent has ended

async function attempt(): Promise<{ names: readonly string[] } | { reason: string }> {
  try {
    const runtime = new Runtime()
    if (provider === undefined) return { names: runtime.providers }
    const session = await runtime.openBytes(identityModel, { executionProviders: [provider] })
    await session.run({ x: new runtime.Tensor('float32', new Float32Array(1), [1]) }, { logSeverityLevel: 4 })
    return { names: [provider] }
  } catch (error) {
    return { reason: (error as Error).message }
  }
}

const result = await attempt()
process.send!(result, () => process.exit())
