import { readOptions } from '../../options/plain-options.ts'
import { invalidArgument } from '../../errors.ts'

/** How an engine is shown. */
export interface InspectorOptions {
  /** Heading of the page, of 200 characters at most. Default: `zerohop inspector`. */
  readonly title?: string | undefined
  /** How often an open page is told, in milliseconds: 100 to 60 000. Default: 1000. */
  readonly intervalMs?: number | undefined
  /** Most pages that are told at the same time, 1 to 1000; others get 503 and come again. Default: 16. */
  readonly maxClients?: number | undefined
  /**
   * Names, as in `Host`, by which the page may be asked for over the loopback interface, besides `localhost` and addresses; such as that of
   * a proxy on this machine which passes it on. Any other is answered with 403: a page of another site could have it. Default: none.
   */
  readonly allowedHosts?: readonly string[] | undefined
}

/** The same with defaults. */
export type ResolvedInspectorOptions = {
  readonly [Name in keyof InspectorOptions]-?: NonNullable<InspectorOptions[Name]>
}

/** @throws InferenceError `ERR_INVALID_ARG` for an unknown option, or one out of its range. */
export function resolveInspectorOptions(options: unknown): ResolvedInspectorOptions {
  const {
    title = 'zerohop inspector',
    intervalMs = 1000,
    maxClients = 16,
    allowedHosts = [],
  } = readOptions('options', options, ['title', 'intervalMs', 'maxClients', 'allowedHosts'])
  if (typeof title !== 'string' || title.length === 0 || title.length > 200)
    throw invalidArgument('options.title', 'a string of 1 to 200 characters', title)
  if (!Array.isArray(allowedHosts) || !allowedHosts.every((name) => typeof name === 'string'))
    throw invalidArgument('options.allowedHosts', 'an array of names', allowedHosts)
  return {
    title,
    allowedHosts: allowedHosts.map((name: string) => name.toLowerCase()),
    intervalMs: whole('intervalMs', intervalMs, 100, 60_000),
    maxClients: whole('maxClients', maxClients, 1, 1000),
  }
}

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most)
    throw invalidArgument(`options.${name}`, `a whole number from ${least} to ${most}`, value)
  return value
}
