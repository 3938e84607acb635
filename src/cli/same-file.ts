import { statSync } from 'node:fs'

/** Whether two paths lead to the same existing file. */
export function isSameFile(path: string, other: string): boolean {
  try {
    const [one, two] = [path, other].map((each) => statSync(each, { bigint: true }))
    return one!.ino === two!.ino && one!.dev === two!.dev
  } catch {
    return false // reading or writing them reports what is wrong
  }
}
