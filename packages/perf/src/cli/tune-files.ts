import { closeSync, existsSync, openSync, realpathSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { invalidArgument } from 'zerohop/internals'

/** The files of a call. */
interface TuneFiles {
  readonly model: string
  readonly output: string
  readonly state: string
}

/**
 * Looks, before anything is measured, whether what is found can be written, and over none of the others.
 *
 * @throws InferenceError `ERR_INVALID_ARG` where two are one file; what opening them throws.
 */
export function checkFiles({ model, output, state }: TuneFiles): void {
  for (const path of [output, state])
    if (isSame(path, model))
      throw invalidArgument(path === output ? 'output' : 'state', 'another file than the model', path)
  if (isSame(output, state)) throw invalidArgument('state', 'another file than the output', state)
  checkWritable(output)
  checkWritable(state)
}

function isSame(one: string, other: string): boolean {
  const real = (path: string) => (existsSync(path) ? realpathSync(path) : resolve(path))
  return real(one) === real(other)
}

function checkWritable(path: string): void {
  const isNew = !existsSync(path)
  closeSync(openSync(path, 'a'))
  if (isNew) rmSync(path)
}
