import type { ResolvedConfig } from '../../options/resolve-model-config.ts'
import type { TrialTask } from '../../models/compiled-models/trial-messages.ts'

/** The configuration of a task, with the bytes that come over standard input in their places. */
export async function completeConfig(
  { config, parts }: TrialTask,
  input: AsyncIterable<Uint8Array>,
): Promise<ResolvedConfig> {
  if (parts.length === 0) return config
  const buffers = parts.map((byteLength) => new SharedArrayBuffer(byteLength))
  let part = 0
  let filled = 0
  for await (const piece of input) {
    for (let at = 0; at < piece.byteLength;) {
      while (filled === parts[part]) [part, filled] = [part + 1, 0]
      const length = Math.min(piece.byteLength - at, parts[part]! - filled)
      new Uint8Array(buffers[part]!, filled, length).set(piece.subarray(at, at + length))
      at += length
      filled += length
    }
  }
  const external = config.sessionOptions.externalData as readonly { path: string }[] | undefined
  if (external === undefined) return { ...config, bytes: buffers[0]! }
  // Each in memory of its own, as they were given.
  const data = buffers.slice(-external.length).map((buffer) => new Uint8Array(buffer).slice())
  const externalData = external.map(({ path }, index) => ({ path, data: data[index]! }))
  const sessionOptions = { ...config.sessionOptions, externalData }
  return { ...config, sessionOptions, bytes: buffers.length > external.length ? buffers[0]! : null }
}
