import { closeSync, openSync, readSync } from 'node:fs'
import { cpus } from 'node:os'

let found: string | undefined

/** What this machine's processor can do, in words: compiled weights are laid out for it. */
export function cpuFeatures(): string {
  return (found ??= fromSystem() ?? cpus()[0]?.model ?? '')
}

const mostBytes = 16_384

/** Of the first processor: with hundreds of them the whole list takes its time. */
function fromSystem(): string | null {
  try {
    const file = openSync('/proc/cpuinfo', 'r')
    try {
      const buffer = Buffer.alloc(mostBytes)
      const length = readSync(file, buffer, 0, mostBytes, 0)
      return (
        /^(?:flags|Features)\s*:(.*)$/m
          .exec(buffer.toString('latin1', 0, length))?.[1]
          ?.trim()
          .split(/\s+/)
          .sort()
          .join(' ') ?? null
      )
    } finally {
      closeSync(file)
    }
  } catch {
    return null // it does not tell
  }
}
