import type { Runtime } from './onnxruntime.ts'

/** An ONNX model of one Identity node, float32 [1] -> [1]. */
export const identityModel = Buffer.from(
  'CAhCAhANOjcKEAoBeBIBeSIISWRlbnRpdHkSAWdaDwoBeBIKCggIARIECgIIAWIPCgF5EgoKCAgBEgQKAggB',
  'base64',
)

/** Whether ONNX Runtime takes views of a SharedArrayBuffer as inputs here: asked of it, not read off version numbers. */
export async function acceptsSharedMemory(runtime: Runtime): Promise<boolean> {
  try {
    const session = await runtime.openBytes(identityModel)
    const data = new Float32Array(new SharedArrayBuffer(4)) as unknown as Float32Array<ArrayBuffer>
    data[0] = 7
    const { y } = await session.run({ x: new runtime.Tensor('float32', data, [1]) }, ['y'], {
      logSeverityLevel: 4,
    })
    await session.release()
    return (y?.data as Float32Array | undefined)?.[0] === 7
  } catch {
    return false
  }
}
