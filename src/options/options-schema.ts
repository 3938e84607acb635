import * as v from 'valibot'
import { filePath } from '../base/files.ts'
import { invalidArgument, invalidConfig } from '../errors.ts'
import {
  durationShown,
  isDuration,
  isPlainObject,
  ownProperties,
  typed,
  unknownOption,
} from './plain-options.ts'

const plainObject = {
  ...v.custom<Readonly<Record<string, unknown>>>(isPlainObject),
  expects: 'a plain object',
}

/** Schema of an object with any properties; the output is a copy that inherits nothing. */
export const properties = v.pipe(plainObject, v.transform(ownProperties))

/** Schema of `parameters`: strings by name. */
export const parametersSchema = v.pipe(properties, v.record(v.string(), v.string()))

type ObjectOf<Entries extends v.ObjectEntries> = v.ObjectSchema<Entries, undefined>
type SchemaOf<Entries extends v.ObjectEntries> = v.GenericSchema<
  v.InferInput<ObjectOf<Entries>>,
  v.InferOutput<ObjectOf<Entries>>
>

/** Reports the first unknown name, before any missing one; the message lists the known names. */
const onlyNamed = (known: readonly string[]) =>
  v.rawCheck<Record<string, unknown>>(({ dataset, addIssue }) => {
    if (!dataset.typed) return
    const { value: input } = dataset
    const key = Object.keys(input).find((name) => !known.includes(name))
    if (key === undefined) return
    addIssue({
      path: [{ type: 'object', origin: 'key', input, key, value: input[key] }],
      message: known.join(', '),
    })
  })

/** Schema of an object with these entries and no others. The output inherits nothing. */
export function optionsOf<const Entries extends v.ObjectEntries>(entries: Entries): SchemaOf<Entries> {
  return v.pipe(
    properties,
    onlyNamed(Object.keys(entries)),
    v.object(ownProperties(entries)),
    v.transform(ownProperties),
  ) as SchemaOf<Entries>
}

const list = { ...v.custom<unknown[]>(Array.isArray), expects: 'Array' }
const anything = v.custom<unknown[]>(() => true)
const eachText = v.array(v.string())

/**
 * Schema of a list of texts. There may be tens of thousands, and valibot takes a microsecond for each: it only finds the
 * one that is none.
 */
export const texts = v.pipe(
  list,
  v.transform((given) => [...given]),
  v.lazy((own): v.GenericSchema<unknown[]> =>
    (own as unknown[]).every((text) => typeof text === 'string') ? anything : eachText,
  ),
) as v.GenericSchema<string[], string[]>

/** The type of an option without what schemas do not express: `undefined`, and whether a list is `readonly`. */
type Taken<T> =
  Exclude<T, undefined> extends infer U ? (U extends readonly (infer E)[] ? readonly E[] : U) : never
/**
 * Options that only one of the two types has, or whose types differ. Options that a schema leaves unchecked match any
 * type.
 */
type Differing<A, B> =
  | Exclude<keyof A | keyof B, keyof A & keyof B>
  | {
      [Key in keyof A & keyof B]: Readonly<Record<string, unknown>> extends Taken<B[Key]>
        ? never
        : [Taken<A[Key]>, Taken<B[Key]>] extends [Taken<B[Key]>, Taken<A[Key]>]
          ? never
          : Key
    }[keyof A & keyof B]

/**
 * {@link optionsOf} for the options of an interface. It does not compile if an option is missing on either side, or has a
 * different type.
 */
export function declares<Declared>() {
  return <const Entries extends v.ObjectEntries>(
    entries: [Differing<Declared, v.InferInput<SchemaOf<Entries>>>] extends [never]
      ? Entries
      : Entries & { readonly differs: Differing<Declared, v.InferInput<SchemaOf<Entries>>> },
  ) => optionsOf(entries) as v.GenericSchema<Declared, v.InferOutput<SchemaOf<Entries>>>
}

/** Schema of a whole number. */
export const wholeNumber = (minimum: number, maximum = 2 ** 31 - 1, words = 'a whole number') =>
  v.pipe(v.number(), v.integer(words), v.minValue(minimum), v.maxValue(maximum))

/** Schema of a whole number, whose error gives the range in words. */
export const wholeFrom = (least: number, most: number) =>
  v.custom<number>(
    (given) => Number.isInteger(given) && (given as number) >= least && (given as number) <= most,
    `a whole number from ${least} to ${most}`,
  )

/** Sizes in their order, each once. */
export function ascending(sizes: readonly number[]): number[] {
  return [...new Set(sizes)].sort((a, b) => a - b)
}

/** Schema of a finite number above 0. */
export const positiveNumber = v.pipe(
  v.number(),
  v.check((value) => value > 0 && value < Infinity, 'a finite number above 0'),
)

/** Schema of a part of a whole, 0 to 1. */
export const share = v.pipe(v.number(), v.minValue(0), v.maxValue(1))

/** Schema of a file or a folder. */
export const fileOrUrl = v.custom<string | URL>((given) => filePath(given) !== null, 'a path or a file: URL')

const delayOf = (least: string) =>
  v.pipe(
    v.number(),
    v.check((ms) => ms >= 0 && ms < 2 ** 31, `milliseconds, ${least} and less than 2^31`),
  )

/** Schema of a duration in milliseconds that may be 0, and fits a timer. */
export const delayMs = delayOf('at least 0')

/** Schema of a limit in milliseconds, where 0 is none. */
export const limitMs = delayOf('0 for no limit')

/** Schema of a duration in milliseconds that is not 0, and fits a timer. */
export const durationMs = v.pipe(
  v.number(),
  v.check((ms) => isDuration(ms), durationShown),
)

/**
 * Parses a caller's value with a schema.
 *
 * @param name of the value, which errors put before the option's name, except for `config`.
 * @param model the model of a configuration.
 * @param example what is expected instead of a value that is no object. Default: a plain object.
 * @throws InferenceError `ERR_INVALID_ARG`, or `ERR_MODEL_CONFIG` for a configuration, with the option's path, what was
 * expected and what was received.
 */
export function parseOptions<Schema extends v.GenericSchema>(
  schema: Schema,
  given: unknown,
  name: 'options' | 'settings' | 'config',
  model?: string,
  example?: string,
): v.InferOutput<Schema> {
  let result
  try {
    result = v.safeParse(schema, given, { abortEarly: true })
  } catch (error) {
    throw typed(name, error, { model })
  }
  if (result.success) return result.output
  const issue = deepest(result.issues[0])
  const details = model === undefined ? {} : ({ code: 'ERR_MODEL_CONFIG', model } as const)
  if (issue.path === undefined) throw invalidArgument(name, example ?? 'a plain object', given, details)
  const path = issue.path.reduce(
    (path, { key }) =>
      typeof key === 'number' ? `${path}[${key}]` : path === '' ? String(key) : `${path}.${String(key)}`,
    name === 'config' ? '' : name,
  )
  if (issue.type === 'raw_check') {
    const key = String(issue.path.at(-1)!.key)
    throw unknownOption(path, key, issue.message.split(', '), {
      ...details,
      elsewhere: elsewhere(schema as Parts, path, key),
    })
  }
  const isMissing = issue.type === 'object' && issue.received === 'undefined'
  const isOwn = !issue.message.startsWith('Invalid ') // a message of our schema, not of the library
  const expected = isOwn ? issue.message : isMissing ? 'to be given' : (issue.expected ?? issue.message)
  throw invalidArgument(path, expected, issue.input, details)
}

/** What must not be so in a configuration, the option's path, what is expected there, what was received, and what to do. */
type Rule = readonly [isBroken: boolean, option: string, expected: string, received: unknown, hint?: string]

/**
 * Checks options of a model against each other.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for the first rule that is broken.
 */
export function checkRules(model: string, rules: readonly Rule[]): void {
  for (const [isBroken, ...wrong] of rules) if (isBroken) throw invalidConfig(model, ...wrong)
}

/** Where an option belongs that was given at `path`, the least deep place; `null` for an option that does not exist. */
function elsewhere(schema: Parts, path: string, key: string): string | null {
  const depth = (place: string) => place.split('.').length
  const [place] = placesOf(schema, key).toSorted((a, b) => depth(a) - depth(b))
  if (place === undefined) return null
  return place === `.${key}` ? `${key}, outside ${path.slice(0, -key.length - 1)}` : place.slice(1)
}

/** What a schema is made of. */
interface Parts {
  readonly entries?: Readonly<Record<string, Parts>>
  readonly item?: Parts
  readonly pipe?: readonly Parts[]
  readonly options?: readonly Parts[]
  readonly wrapped?: Parts
}

/** Where a schema has options of this name, as `.group.name` or `.list[0].name`. */
function placesOf({ entries = {}, item, pipe = [], options = [], wrapped }: Parts, name: string): string[] {
  return [
    ...(Object.hasOwn(entries, name) ? [`.${name}`] : []),
    ...Object.entries(entries).flatMap(([key, part]) =>
      placesOf(part, name).map((place) => `.${key}${place}`),
    ),
    ...(item === undefined ? [] : placesOf(item, name).map((place) => `[0]${place}`)),
    ...[...pipe, ...options, wrapped ?? []].flat().flatMap((part) => placesOf(part, name)),
  ]
}

/** The innermost issue of a union: the most likely mistake. */
function deepest(issue: v.BaseIssue<unknown>): v.BaseIssue<unknown> {
  const nested = issue.issues
    ?.map(deepest)
    .toSorted((a, b) => (b.path?.length ?? 0) - (a.path?.length ?? 0))[0]
  if (nested === undefined || nested.path === undefined) return issue
  return { ...nested, path: issue.path === undefined ? nested.path : [...issue.path, ...nested.path] }
}
