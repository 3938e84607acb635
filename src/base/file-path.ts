import { fileURLToPath } from 'node:url'

/** The path that a path or a `file:` URL names, which may be text as well; `null` for what names no file, such as an address of the web. */
export function filePath(given: unknown): string | null {
  const isUrl =
    given instanceof URL ||
    (typeof given === 'string' && /^(?:file:\/\/|https?:\/\/|data:[a-z]+\/)/i.test(given))
  if (!isUrl) return typeof given === 'string' && given !== '' ? given : null
  try {
    return fileURLToPath(given)
  } catch {
    return null // of another scheme, or with a host
  }
}
