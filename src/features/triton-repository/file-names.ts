import type { ConfigFields } from './config-fields.ts'

/** A path below the folder it is for; one that leads out of it, or is none, is refused. */
export function checkFileName(fields: ConfigFields, field: string, name: string): string {
  const parts = name.split(/[/\\]/)
  if (
    name.includes('\0') ||
    parts.some((part) => part === '' || part === '.' || part === '..') ||
    /^[A-Za-z]:/.test(name)
  ) {
    fields.fail(field, 'the name of a file in its folder', name)
  }
  return name
}
