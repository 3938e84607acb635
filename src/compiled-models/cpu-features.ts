import { open } from 'node:fs/promises'
import { cpus } from 'node:os'

let found: Promise<string> | undefined

/** What this machine's processor can do, in words: compiled weights are laid out for it. */
export function cpuFeatures(): Promise<string> {
  return (found ??= fromSystem().catch(() => cpus()[0]?.model ?? ''))
}

/** Of the first processor: with hundreds of them the whole list takes its time. */
async function fromSystem(): Promise<string> {
  const file = await open('/proc/cpuinfo')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(16_384), 0, 16_384, 0)
    const features = /^(?:flags|Features)\s*:(.*)$/m.exec(buffer.toString('latin1', 0, bytesRead))?.[1]
    if (features === undefined) throw new Error('it does not tell')
    return features.trim().split(/\s+/).sort().join(' ')
  } finally {
    await file.close()
  }
}
