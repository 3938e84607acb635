import { fromFloat16Bits } from './float16.ts'
import { listNames } from './describe.ts'
import { invalidArgument } from './errors.ts'
import type { ModelMetadata } from './metadata.ts'
import { isTensorLike } from './tensor.ts'

/** One class that a model has given a score. */
export interface Classification {
  /** Its place among the classes, from 0. */
  readonly index: number
  /** The score as the model has given it. */
  readonly value: number
  /** The line of the label file; `undefined` without one, or with fewer lines. */
  readonly label: string | undefined
}

/**
 * The classes with the highest scores, for each row; of two with one score the first comes first.
 *
 * @param labels by output.
 * @throws InferenceError `ERR_INVALID_ARG`.
 */
export function classify(
  { name: model, outputs: known }: ModelMetadata,
  labels: ReadonlyMap<string, readonly string[]>,
  outputs: unknown,
  count: number,
  output: string | undefined,
): Classification[][] {
  const wrong = (argument: string, expected: string, received: unknown) => invalidArgument(argument, expected, received, { model })
  if (!Number.isSafeInteger(count) || count < 1) throw wrong('count', 'a whole number of at least 1', count)
  const names = known.map(({ name }) => name)
  const name = output ?? (labels.size === 1 ? [...labels.keys()][0]! : names.length === 1 ? names[0]! : undefined)
  if (name === undefined || !names.includes(name)) throw wrong('output', `the name of an output (${listNames(names)})`, output)
  const value = typeof outputs === 'object' && outputs !== null && Object.hasOwn(outputs, name) ? (outputs as Record<string, unknown>)[name] : undefined
  if (!isTensorLike(value)) throw wrong(`outputs.${name}`, 'a tensor, as infer() answers with it', value)
  const { dims, data, type } = value
  if (!ArrayBuffer.isView(data) || (type !== 'float16' && !/^(?:float(?:32|64)|u?int(?:8|16|32|64))$/.test(type))) {
    throw wrong(`outputs.${name}`, 'a tensor of numbers', `one of type ${type}`)
  }
  const scores = numbersOf(type, data as unknown as ArrayLike<number | bigint>)
  const isBatched = dims.length > 1 && typeof known.find((each) => each.name === name)!.shape[0] === 'string'
  const rows = isBatched ? dims[0]! : 1
  const classes = rows === 0 ? 0 : scores.length / rows
  const own = labels.get(name)
  return Array.from({ length: rows }, (_, row) =>
    highest(scores, row * classes, (row + 1) * classes, count).map((at) => {
      const index = at - row * classes
      return { index, value: scores[at]!, label: own?.[index] }
    }),
  )
}

/** Warns of each output that has another number of labels than of classes: some classes have no name then, or that of another. */
export function warnOfLabels({ name: model, outputs }: ModelMetadata, labels: ReadonlyMap<string, readonly string[]>): void {
  for (const { name, shape } of outputs) {
    const own = labels.get(name)
    const classes = classesOf(shape)
    if (own === undefined || classes === null || own.length === classes) continue
    const effect = own.length < classes ? 'those after them are classified without a label' : 'the last ones are never given'
    const message = `Output '${name}' of model '${model}' has ${classes} classes, and ${own.length} labels: ${effect}. Give one label for each class, in their order.`
    process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_LABELS' })
  }
}

/** How many classes a row of an output has, where its shape says it: of one dimension at most beside those of 1. */
function classesOf(shape: ModelMetadata['outputs'][number]['shape']): number | null {
  const ofRow = shape.length > 1 && typeof shape[0] === 'string' ? shape.slice(1) : shape
  const [classes = 1, ...others] = ofRow.filter((dim) => dim !== 1)
  return others.length === 0 && typeof classes === 'number' ? classes : null
}

/** Places of the `count` highest scores in `[start, end)`, the highest first. */
function highest(scores: ArrayLike<number>, start: number, end: number, count: number): number[] {
  const best: number[] = []
  for (let at = start; at < end; at++) {
    const score = scores[at]!
    if (best.length === count && !(score > scores[best.at(-1)!]!)) continue
    let place = best.length
    while (place > 0 && score > scores[best[place - 1]!]!) place--
    best.splice(place, 0, at)
    if (best.length > count) best.pop()
  }
  return best
}

/** Newer Node shows float16 as numbers, older as bits. */
function numbersOf(type: string, data: ArrayLike<number | bigint>): ArrayLike<number> {
  if (type === 'float16' && data instanceof Uint16Array) return Float32Array.from(data, fromFloat16Bits)
  return type.endsWith('int64') ? Float64Array.from(data, Number) : (data as ArrayLike<number>)
}
