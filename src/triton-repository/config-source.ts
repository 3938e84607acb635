import { invalidArgument, type InferenceError } from '../errors.ts'

/** A `config.pbtxt`: its text, where it lies, and the model it is for, which every error about it names. */
export interface ConfigSource {
  readonly model: string
  readonly file: string
  readonly text: string
}

/** Line and column of an offset, both counted from 1. */
export function position({ text }: ConfigSource, offset: number): { line: number; column: number } {
  const before = text.slice(0, offset)
  return { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') }
}

/** `ERR_MODEL_CONFIG` for what stands at `offset`; the message ends with `file:line:column`. */
export function configError(
  source: ConfigSource,
  offset: number,
  name: string,
  expected: string,
  received: unknown,
  hint?: string,
): InferenceError {
  const { line, column } = position(source, offset)
  const where = `At ${source.file}:${line}:${column}`
  return invalidArgument(name, expected, received, {
    code: 'ERR_MODEL_CONFIG',
    model: source.model,
    hint: hint === undefined ? where : `${hint}. ${where}`,
  })
}
