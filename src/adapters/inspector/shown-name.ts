import { cut } from '../../errors.ts'

/** In characters: names are anybody's, and come in every frame. */
const longestName = 120

/** A name as it is told. */
export function shownName(name: string): string {
  return cut(name, longestName)
}
