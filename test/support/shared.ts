import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../../../shared/', import.meta.url))

/** Whether the real models and images, which are not part of this project, lie beside the checkout. */
export const hasShared = existsSync(`${folder}models/README.md`)

/** For the name of a suite that needs them. */
export const missingShared = hasShared ? '' : ' (skipped: no ../shared with models and images)'

export const sharedPath = (path: string): string => `${folder}${path}`

/** The lines of a text file among them. */
export const sharedLines = (path: string): string[] =>
  readFileSync(sharedPath(path), 'utf8').trimEnd().split('\n')

/** `items` in turn through `callers` concurrent callers of `call`; the answers in the order of the items. */
export async function inParallel<T, R>(
  callers: number,
  items: readonly T[],
  call: (item: T) => Promise<R>,
): Promise<R[]> {
  const answers: R[] = []
  const queue = items.entries()
  const caller = async (): Promise<void> => {
    for (const [index, item] of queue) answers[index] = await call(item)
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return answers
}
