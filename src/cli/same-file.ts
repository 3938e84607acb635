import { statSync } from 'node:fs'

/** Whether two paths lead to one file that is there. */
export function isSameFile(path: string, other: string): boolean {
  try {
    const [one, two] = [path, other].map((each) => statSync(each, { bigint: true }))
    return one!.ino === two!.ino && one!.dev === two!.dev
  } catch {
    return false // what is wrong with them is told by reading and writing
  }
}
