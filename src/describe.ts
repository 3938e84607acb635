import { types } from 'node:util'

/** Most characters of a description, of a name and of a piece of text in a message. */
const longest = 200
/** Most characters of a string that are shown, and of one within an array. */
const longestText = 80
const longestItem = 40
const itemsShown = 8
/** Arrays within arrays shown; what lies deeper is dots. */
const deepest = 2
/** Arrays of so many items at most are kept as they are in `error.received`. */
const itemsKept = 16
/** Names listed in a message. */
const namesListed = 10
const escapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }
const hugeInteger = 10n ** 40n

const typedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype) as object
const lengthOf = Object.getOwnPropertyDescriptor(typedArrayPrototype, 'length')!.get!
const kindOf = Object.getOwnPropertyDescriptor(typedArrayPrototype, Symbol.toStringTag)!.get!

/**
 * Shows a received value in an error message: with its type, in at most 200 characters and with as little work, however
 * large, deep or cyclic it is. Runs none of the value's own code (getters, proxies, `toString`) and never throws.
 */
export function describe(value: unknown): string {
  if (typeof value === 'string') return cut(quoted(value, longestText), longest)
  if (typeof value === 'object' || typeof value === 'function') return cut(describeObject(value, 0), longest)
  return value === undefined
    ? 'undefined'
    : cut(`${primitive(value, longestText)} (${typeof value})`, longest)
}

/**
 * What an error keeps of a value that was wrong: itself if it is a short primitive, a copy if it is a short array of
 * those, else its description. So an error holds nobody's memory, and can be serialised.
 */
export function receivedOf(value: unknown): unknown {
  if (isShort(value)) return value
  if (types.isProxy(value) || !Array.isArray(value) || value.length > itemsKept) return describe(value)
  const items = Array.from({ length: value.length }, (_, index) => ownData(value, index))
  return items.every(isShort) ? items : describe(value)
}

/** The first ten names in quotes, and how many more there are; `'none'` for an empty list. */
export function listNames(names: readonly string[], none = 'none'): string {
  if (names.length === 0) return none
  const shown = names
    .slice(0, namesListed)
    .map((name) => quoted(name, longestText))
    .join(', ')
  return names.length > namesListed ? `${shown} and ${names.length - namesListed} more` : shown
}

/** The text if it is short, else its beginning and how long it is. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : `${flat(text, most - 30)}... (${text.length} characters)`
}

function describeObject(value: object | null, depth: number): string {
  if (value === null) return 'null'
  if (types.isProxy(value)) return 'a Proxy'
  if (typeof value === 'function') {
    const name = ownData(value, 'name')
    return `function ${typeof name === 'string' && name !== '' ? printable(cut(name, longestText)) : '(anonymous)'}`
  }
  if (Array.isArray(value)) return describeArray(value, depth)
  if (!types.isTypedArray(value)) return `an instance of ${className(value) ?? 'Object'}`
  return `${className(value) ?? (kindOf.call(value) as string)}(${lengthOf.call(value) as number})`
}

function describeArray(array: readonly unknown[], depth: number): string {
  if (depth > deepest) return '[...]'
  const shown: string[] = []
  let room = longest
  for (let index = 0; index < array.length && index < itemsShown && room > 0; index++) {
    const item = ownData(array, index)
    const text =
      typeof item === 'object' || typeof item === 'function'
        ? describeObject(item, depth + 1)
        : primitive(item, longestItem)
    room -= text.length
    shown.push(text)
  }
  return `[${shown.join(', ')}${array.length > shown.length ? `, ... ${array.length} items` : ''}]`
}

function primitive(value: unknown, most: number): string {
  if (typeof value === 'string') return printable(value.length > most ? `${flat(value, most - 3)}...` : value)
  if (typeof value === 'symbol') return `Symbol(${printable(cut(value.description ?? '', most))})`
  if (typeof value !== 'bigint') return String(value)
  // Writing a number of a million digits takes seconds; comparing it takes none.
  return value < hugeInteger && value > -hugeInteger ? String(value) : 'more than 40 digits'
}

function quoted(text: string, most: number): string {
  return `'${primitive(text, most)}'`
}

/** Without line breaks and other control characters, with which a value could forge lines of a log. */
function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (control) => escapes[control] ?? `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** A beginning of its own: what `slice` gives would keep the whole text in memory. */
function flat(text: string, length: number): string {
  return Buffer.from(text.slice(0, length).toWellFormed()).toString()
}

/** The name of the nearest constructor, if it has an ordinary one. */
function className(value: object): string | undefined {
  let holder: object | null = Object.getPrototypeOf(value) as object | null
  for (let up = 0; up < 8 && holder !== null && !types.isProxy(holder); up++) {
    const maker = ownData(holder, 'constructor')
    if (typeof maker === 'function' && !types.isProxy(maker)) {
      const name = ownData(maker, 'name')
      return typeof name === 'string' && name !== '' ? printable(cut(name, longestText)) : undefined
    }
    holder = Object.getPrototypeOf(holder) as object | null
  }
  return undefined
}

/** A property as it is stored; what a getter would give is not looked at. */
function ownData(holder: object, key: string | number): unknown {
  const property = Object.getOwnPropertyDescriptor(holder, key)
  return property !== undefined && Object.hasOwn(property, 'value') ? property.value : undefined
}

function isShort(value: unknown): boolean {
  if (typeof value === 'string') return value.length <= longest
  return value === null || value === undefined || typeof value === 'number' || typeof value === 'boolean'
}
