import { runInNewContext } from 'node:vm'
import { describe as suite, expect, it } from 'vitest'
import { describe, InferenceError, invalidArgument, listNames } from '../src/errors.ts'

const nested = (depth: number): unknown[] =>
  depth === 0 ? [1] : Array.from({ length: 8 }, () => nested(depth - 1))
function shared(): unknown[] {
  let array: unknown[] = [1]
  for (let level = 0; level < 40; level++) array = Array<unknown>(8).fill(array)
  return array
}
function cyclic(): unknown[] {
  const array: unknown[] = []
  array.push(array, array)
  return array
}
function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
const fails = (): never => {
  throw new Error('own code of the value was run')
}
const trapped = (target: object) =>
  new Proxy(target, {
    get: fails,
    has: fails,
    ownKeys: fails,
    getPrototypeOf: fails,
    getOwnPropertyDescriptor: fails,
  })

class LyingArray extends Float32Array {
  override get length(): number {
    return fails()
  }
}

/** Values that are hard to show, with what a description of them looks like. */
const hostile: [what: string, make: () => unknown, shown: RegExp][] = [
  [
    'brackets 60 000 deep',
    () => JSON.parse(`${'['.repeat(60_000)}${']'.repeat(60_000)}`),
    /^\[\[\[\[\.\.\.\]\]\]\]$/,
  ],
  ['a tree of 262 144 numbers', () => nested(5), /^\[\[\[\[\.\.\.\]/],
  ['one array shared 8 ^ 40 times', shared, /^\[\[\[\[\.\.\.\], /],
  ['a cycle', cyclic, /^\[\[\[\[\.\.\.\], \[\.\.\.\]\]/],
  ['a long array', () => Array(1e6).fill(7), /^\[7, 7, 7, 7, 7, 7, 7, 7, \.\.\. 1000000 items\]$/],
  ['an array without items', () => Array(2 ** 32 - 1), /4294967295 items/],
  [
    'an array whose item has a getter',
    () => Object.defineProperty([1], 0, { get: fails }),
    /^\[undefined\]$/,
  ],
  ['a long string', () => 'x'.repeat(1e8), /^'x{77}\.\.\.'$/],
  ['long strings in an array', () => Array(8).fill('y'.repeat(1e6)), /^\[y{37}\.\.\., y/],
  [
    'a string with line breaks',
    () => 'a\nERROR forged\r\u2028\u0000',
    /^'a\\nERROR forged\\r\\u2028\\u0000'$/,
  ],
  ['half a surrogate pair', () => '\ud83d'.repeat(100), /^'\ufffd{77}\.\.\.'$/],
  ['a bigint of a million digits', () => 2n ** 3_000_000n, /^more than 40 digits \(bigint\)$/],
  ['such a one in an array', () => [-(2n ** 3_000_000n)], /^\[more than 40 digits\]$/],
  ['a symbol', () => Symbol('s'), /^Symbol\(s\) \(symbol\)$/],
  ['symbols in an array', () => [Symbol('s'), Symbol()], /^\[Symbol\(s\), Symbol\(\)\]$/],
  [
    'a constructor named by a symbol',
    () =>
      new (class {
        static name = Symbol('x') as never
      })(),
    /^an instance of Object$/,
  ],
  [
    'a constructor with a long name',
    () =>
      new (class {
        static name = 'n'.repeat(1e6)
      })(),
    /^an instance of n+\.\.\. \(1000000 characters\)$/,
  ],
  [
    'a constructor that is a getter',
    () =>
      Object.create({
        get constructor() {
          return fails()
        },
      }),
    /^an instance of Object$/,
  ],
  ['no prototype', () => Object.create(null), /^an instance of Object$/],
  [
    'a function whose name is a getter',
    () => Object.defineProperty(() => 1, 'name', { get: fails }),
    /^function \(anonymous\)$/,
  ],
  [
    'a function with a long name',
    () => Object.defineProperty(() => 1, 'name', { value: 'f'.repeat(1e6) }),
    /^function f+\.\.\. \(1000000 characters\)$/,
  ],
  ['a class', () => class Cat {}, /^function Cat$/],
  ['a revoked proxy', revoked, /^a Proxy$/],
  ['a proxy whose traps throw', () => trapped({}), /^a Proxy$/],
  ['a proxy of a function', () => trapped(fails), /^a Proxy$/],
  ['proxies in an array', () => [revoked(), trapped([])], /^\[a Proxy, a Proxy\]$/],
  ['a prototype that is a proxy', () => Object.create(trapped({})), /^an instance of Object$/],
  [
    'an object whose toString throws',
    () => ({ toString: fails, toJSON: fails, [Symbol.toPrimitive]: fails }),
    /^an instance of Object$/,
  ],
  ['a typed array that lies about its length', () => new LyingArray(3), /^LyingArray\(3\)$/],
  ['a Buffer', () => Buffer.alloc(5), /^Buffer\(5\)$/],
  ['a typed array of another realm', () => runInNewContext('new Float64Array(2)'), /^Float64Array\(2\)$/],
  ['a Map of another realm', () => runInNewContext('new Map()'), /^an instance of Map$/],
  ['an array of another realm', () => runInNewContext('[1, [2]]'), /^\[1, \[2\]\]$/],
  ['null', () => null, /^null$/],
  ['undefined', () => undefined, /^undefined$/],
  ['a number', () => -0.5, /^-0\.5 \(number\)$/],
]

suite('a received value is described', () => {
  it.each(hostile)('shortly, without running its code: %s', (_, make, shown) => {
    const value = make()
    const text = describe(value)
    expect(text).toMatch(shown)
    expect(text.length).toBeLessThanOrEqual(200)
  })

  it.each(hostile)('and what an error keeps of it is small and can be serialised: %s', (_, make) => {
    const error = invalidArgument('x', 'something else', make(), { model: 'm', hint: 'Look it up' })
    expect(error).toBeInstanceOf(InferenceError)
    expect(error.message).toMatch(/^x of model 'm': expected something else, received .*\. Look it up$/)
    expect(JSON.stringify(error).length).toBeLessThan(1000)
    expect(() => structuredClone({ ...error })).not.toThrow()
  })
})

suite('an error', () => {
  it('keeps short values as they are, in a copy', () => {
    const dims = [1, 'two', null, NaN]
    const error = invalidArgument('dims', 'others', dims)
    dims.push(5)
    expect(error.received).toEqual([1, 'two', null, NaN])
    for (const value of [null, undefined, 7, true, 'text', ''])
      expect(invalidArgument('x', 'y', value).received).toBe(value)
  })

  it('has a message, an argument and a model of bounded length', () => {
    const long = 'n'.repeat(1e6)
    const error = invalidArgument(long, long, long, { model: long, hint: long })
    expect(error.message.length).toBeLessThanOrEqual(4000)
    expect(error.argument!.length).toBeLessThanOrEqual(200)
    expect(error.stack!.length).toBeLessThan(10_000)
  })

  it('is written as JSON with its message and code', () => {
    const error = new InferenceError('ERR_QUEUE_FULL', 'try again', {
      model: 'm',
      retryAfterMs: 5,
      cause: new Error('not written'),
    })
    expect(JSON.parse(JSON.stringify({ error }))).toEqual({
      error: {
        name: 'InferenceError',
        code: 'ERR_QUEUE_FULL',
        message: 'try again',
        model: 'm',
        retryAfterMs: 5,
      },
    })
  })

  it('lists ten names and counts the others', () => {
    expect(listNames(['a', "b'c"])).toBe("'a', 'b'c'")
    expect(listNames(Array.from({ length: 10_000 }, (_, index) => `i${index}`))).toMatch(
      /^'i0', .*'i9' and 9990 more$/,
    )
    expect(listNames([], '(none)')).toBe('(none)')
  })

  it('takes nothing from a changed Object.prototype', () => {
    const inherited = {
      model: 'polluted',
      name: 'polluted',
      code: 'ERR_CLOSED',
      hint: 'polluted',
      cause: 'polluted',
      received: 'polluted',
    }
    for (const [name, value] of Object.entries(inherited))
      Object.defineProperty(Object.prototype, name, { value, configurable: true, writable: true })
    try {
      const error = invalidArgument('x', 'a number', true)
      expect(error.code).toBe('ERR_INVALID_ARG')
      expect(error.message).toBe('x: expected a number, received true (boolean)')
      expect(Object.hasOwn(error, 'cause')).toBe(false)
      expect(Object.hasOwn(new InferenceError('ERR_CLOSED', 'closed'), 'received')).toBe(false)
    } finally {
      for (const name of Object.keys(inherited)) delete (Object.prototype as Record<string, unknown>)[name]
    }
  })
})
