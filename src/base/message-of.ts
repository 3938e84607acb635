import { join } from 'node:path'
import { isNativeError } from 'node:util/types'
import { describe } from '../errors.ts'
import { packageFolder } from './own-package.ts'

/** Errors that JavaScript itself throws. Their messages do not say where. */
const ofLanguage = [TypeError, RangeError, ReferenceError, SyntaxError]
const ownFolders = ['dist', 'src'].map((folder) => join(packageFolder, folder))
const fileAndLine = /([^\s()/\\]+\.[cm]?[jt]s:\d+)/

/** The message of a value thrown by the user's code, which may be anything. Never throws. */
export function messageOf(reason: unknown): string {
  if (typeof reason === 'string') return reason
  try {
    if (!isNativeError(reason) && !(reason instanceof Error)) return describe(reason)
    const { name, message } = reason
    return `${String(message === '' ? name : message)}${placeOf(reason)}`
  } catch {
    return describe(reason)
  }
}

/** File and line of the user's code that such an error comes from. */
function placeOf(error: Error): string {
  if (!ofLanguage.some((type) => error instanceof type)) return ''
  const line = String(error.stack)
    .split('\n')
    .find((line) => fileAndLine.test(line) && !ownFolders.some((folder) => line.includes(folder)))
  return line === undefined ? '' : ` (${fileAndLine.exec(line)![1]})`
}
