import type { ElementType } from '../models/element-type.ts'
import { parseGraph, type GraphInput, type GraphText } from './graph-text.ts'
import { allCases } from './operator-cases.ts'

/**
 * Cases made of the operator cases by changing one operand: rows along another dimension, or of an operand that had none; a constant,
 * or what all share, in the place of rows; values that depend on the number of rows, or on places of rows. What joining does to them
 * is for ONNX Runtime to say. Many cannot run at all. And cases whose whole output is summed up, and added to rows: what a rule takes
 * for the same in all runs, while it is made of rows, is no longer hidden by its shape.
 */
export function derivedCases(): { text: string; graph: GraphText }[] {
  const plain = allCases.filter(({ text }) => !text.includes('fn '))
  const texts = new Set([
    ...plain.filter(({ expected }) => expected !== 'dependent').flatMap(({ text }) => derivedTexts(text)),
    ...plain.flatMap(({ text }) => summedUp(text)),
  ])
  return [...texts]
    .filter((text) => !endsTheProcess.test(text))
    .flatMap((text) => {
      try {
        return [{ text, graph: parseGraph(text) }]
      } catch {
        return [] // an operand where it cannot be declared
      }
    })
}

/** Frames of length 0 end ONNX Runtime by a division. */
const endsTheProcess = /count[^]*STFT/

const operand =
  /(?<![=\w])(in|k)\(([^()]*)\)|(?<=[(,] ?)((?:u?int\d+|float\d+):)?(-?\d+(?:\.\d+)?)(?=[,)])|(?<=[(,] ?)((?:u?int\d+|float\d+|bool):)?\[-?[\d.]+(?:,-?[\d.]+)*\](?=[,)])/g

function derivedTexts(text: string): string[] {
  return [...text.matchAll(operand)].flatMap((found) => {
    const replaced = (by: string) =>
      text.slice(0, found.index) + by + text.slice(found.index + found[0].length)
    const withCount = (by: string) => `batch = in(N)\nrowcount = Shape(batch) start=0 end=1\n${replaced(by)}`
    if (found[1] === undefined) return counted(found[0]).map(withCount)
    const declared = declaredBy(found[0])
    return declared === null ? [] : [...changed(declared).map(replaced), ...counts(declared).map(withCount)]
  })
}

/** Of each output that is served: its sum, added to rows. */
function summedUp(text: string): string[] {
  const { outputs } = parseGraph(text)
  const [, body, versions = ''] =
    /^([^]*?)((?:\s*@(?:ml)?\d+)*)\s*(?:->\s*(?:[-\d_][^{}]*|\w+ \d[^{}]*))?$/.exec(text)!
  const lines = body!.trim().split('\n')
  const last = lines.at(-1)!
  // An output without a name of its own has one that the parser gave it.
  const isNamed = /^[\w, ]+ = /.test(last)
  if (!isNamed) lines[lines.length - 1] = `whole = ${last}`
  return outputs.map(
    ({ name }) =>
      `${lines.join('\n')}\nsum = ReduceSum(Cast(${isNamed ? name : 'whole'}) to=float32) keepdims=0\nAdd(in(N,1), sum)${versions}`,
  )
}

type Declared = Pick<GraphInput, 'type' | 'dims' | 'range'>

function declaredBy(text: string): Declared | null {
  try {
    return parseGraph(`Identity(${text.replace(/^k/, 'in')})`).inputs[0]!
  } catch {
    return null
  }
}

function written(kind: 'in' | 'k', { type, range }: Declared, dims: readonly (number | 'N')[]): string {
  return `${kind}(${type} ${dims.join(',')}${range === null ? '' : ` ${range.join('..')}`})`
}

/** Rows elsewhere, or none, or some. */
function changed(of: Declared): string[] {
  const { dims, type } = of
  const at = dims.indexOf('N')
  const elsewhere = [...dims.keys()]
    .filter((axis) => axis !== at)
    .flatMap((axis) => {
      const moved = dims.map((size, other) => (other === axis ? 'N' : size === 'N' ? 2 : size))
      return [written('in', of, moved)]
    })
  if (at === -1)
    return [...elsewhere, written('in', of, ['N', ...dims]), written('in', of, ['N', ...dims.slice(1)])]
  const others = [1, 2, 3].flatMap((size) =>
    (type === 'string' ? ['in' as const] : (['in', 'k'] as const)).map((kind) =>
      written(kind, of, dims.with(at, size)),
    ),
  )
  const wider = [written('in', of, ['N', ...dims.with(at, 1)]), written('in', of, dims.slice(1))]
  return [...elsewhere, ...others, ...wider]
}

/** Values that depend on how many rows there are, and on their places. */
function counts({ type, dims, range }: Declared): string[] {
  if (type === 'string' || type === 'bool') return []
  const at = dims.indexOf('N')
  const limit = range === null ? '' : range[1]
  const bounded = (value: string) =>
    limit === '' || type.startsWith('float') ? value : `Mod(${value}, ${Math.max(1, Number(limit))})`
  const plain = dims.map((size) => (size === 'N' ? 1 : size))
  const cast = (value: string, to: ElementType = type) => (to === 'int64' ? value : `Cast(${value}) to=${to}`)
  const expanded = cast(`Expand(${bounded('rowcount')}, [${plain}])`)
  const scalar = dims.length === 0 ? [cast(`Gather(${bounded('rowcount')}, 0)`)] : []
  if (at === -1) return [...scalar, ...(dims.length === 0 ? [] : [expanded])]
  const places = `Reshape(Range(0, Gather(rowcount, 0), 1), [${dims.map((_, axis) => (axis === at ? -1 : 1))}])`
  return [
    expanded,
    cast(`Expand(${bounded(places)}, [${plain}])`),
    cast(`Add(${bounded(places)}, ConstantOfShape([${plain}]) value=int64:[0])`),
  ]
}

/** The same in the place of a number or a list. */
function counted(literal: string): string[] {
  const [, type = literal.includes('.') ? 'float32' : 'int64'] = /^(\w+):/.exec(literal) ?? []
  const cast = (value: string) => (type === 'int64' ? value : `Cast(${value}) to=${type}`)
  if (!literal.includes('['))
    return [cast('Gather(rowcount, 0)'), cast('Gather(Mod(rowcount, [2]), 0)'), `in(${type} N 0..2)`]
  const numbers = literal.replace(/^\w+:/, '').slice(1, -1).split(',')
  return numbers
    .map((_, index) =>
      cast(
        `Concat(${numbers.map((number, other) => (other === index ? 'Mod(rowcount, [2])' : `[${Math.round(Number(number))}]`)).join(', ')}) axis=0`,
      ),
    )
    .concat(cast(`Add(${literal}, Mod(rowcount, [2]))`).replace(/Add\(\w+:/, 'Add('))
}
