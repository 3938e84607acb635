import { invalidArgument, type InferenceError } from '../../errors.ts'

/** A `config.pbtxt`: its text, where it lies, and the model it is for, which every error about it names. */
export interface ConfigSource {
  readonly model: string
  readonly file: string
  readonly text: string
}

/** Where the lines of a file start, found once for all the notes about it. */
const lineStarts = new WeakMap<ConfigSource, number[]>()

/** Line and column of an offset, both counted from 1. */
export function position(source: ConfigSource, offset: number): { line: number; column: number } {
  const starts = startsOf(source)
  let line = 0
  for (let from = 0, to = starts.length; from < to;) {
    const middle = (from + to) >>> 1
    if (starts[middle]! <= offset) from = line = middle + 1
    else to = middle
  }
  return { line, column: offset - starts[line - 1]! + 1 }
}

function startsOf(source: ConfigSource): number[] {
  let starts = lineStarts.get(source)
  if (starts === undefined) {
    starts = [0]
    for (let end = source.text.indexOf('\n'); end !== -1; end = source.text.indexOf('\n', end + 1))
      starts.push(end + 1)
    lineStarts.set(source, starts)
  }
  return starts
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
    hint: hint === undefined ? where : `${hint}${/[.?]$/.test(hint) ? '' : '.'} ${where}`,
  })
}
