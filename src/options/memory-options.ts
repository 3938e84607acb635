import * as v from 'valibot'
import { invalidArgument } from '../errors.ts'
import { optionsOf } from './options-schema.ts'

/** What is kept of the memory of runs. */
export interface ResolvedMemory {
  /** `undefined`: as `sessionOptions` say. */
  readonly arena?: boolean | undefined
  readonly shrink?: 'run' | 'idle' | undefined
  /** `Infinity` for no limit. */
  readonly limitBytes: number
}

export const memorySchema = v.optional(
  optionsOf({
    arena: v.optional(v.boolean()),
    shrink: v.optional(v.picklist(['run', 'idle'])),
    limitBytes: v.optional(v.pipe(v.number(), v.integer('a whole number'), v.minValue(0))),
  }),
  {},
)

/**
 * Checks what is said of the arena against itself.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkMemory(
  model: string,
  { arena, shrink, limitBytes }: ResolvedMemory,
  enableCpuMemArena: boolean | undefined,
): void {
  const wrong = (name: string, expected: string, received: unknown) =>
    invalidArgument(name, expected, received, { code: 'ERR_MODEL_CONFIG', model })
  if (arena !== undefined && enableCpuMemArena !== undefined) {
    throw wrong('sessionOptions.enableCpuMemArena', 'to be left out beside memory.arena', enableCpuMemArena)
  }
  if ((arena ?? enableCpuMemArena) !== false) return
  if (shrink !== undefined) throw wrong('memory.shrink', 'to be left out without an arena', shrink)
  if (limitBytes !== Infinity) throw wrong('memory.limitBytes', 'to be left out without an arena', limitBytes)
}
