import type { ElementType } from '../models/element-type.ts'
import { mulberry32, type Random } from '../models/random.ts'
import { batchAxisOf, parseGraph, type GraphInput } from './graph-text.ts'
import { allCases, type OperatorCase } from './operator-cases.ts'
import { openGraph, sampleRun } from './truth.ts'

/** A dimension by the number of rows: `of * N + more`. */
interface Size {
  readonly of: number
  readonly more: number
}

/** A value of a graph that grows. Its dimension `axis` is `outer * N * inner`; axis is -1 where it has no rows. */
interface Grown {
  readonly name: string
  readonly type: ElementType
  readonly dims: readonly Size[]
  readonly axis: number
  readonly outer: number
  readonly inner: number
  /** Whether it may be infinite or no number. */
  readonly isWild: boolean
}

/** An operator case as a part of larger graphs. */
interface Template {
  readonly subject: string
  /** Lines, with `$0`, `$1` for its inputs and `%` before its names. */
  readonly text: string
  readonly inputs: readonly GraphInput[]
  readonly outputs: readonly Grown[]
  readonly expected: OperatorCase['expected']
  readonly opset: number
  readonly mlOpset: number | null
}

const fixed = (size: number): Size => ({ of: 0, more: size })
const rows: Size = { of: 1, more: 0 }
const count = (dims: readonly Size[]) => dims.reduce((product, { of, more }) => product * (of || more), 1)
const isFloat = (type: ElementType) => type.startsWith('float')
const newestOpset = 26
const mostElements = 400

/** Grows graphs of the operator cases, and of steps that go with any shape. Learns once what shapes the cases give. */
export class GraphSource {
  readonly #bySubject: ReadonlyMap<string, readonly Template[]>
  /** The subjects that graphs begin with in turn. Those of older versions go with few others, and have more turns of their own. */
  readonly #turns: readonly string[]

  private constructor(templates: readonly Template[]) {
    const subjects = [...new Set(templates.map(({ subject }) => subject))]
    this.#bySubject = new Map(
      subjects.map((subject) => [subject, templates.filter((template) => template.subject === subject)]),
    )
    const seldom = subjects.filter((subject) =>
      this.#bySubject.get(subject)!.every(({ opset, mlOpset }) => opset !== newestOpset || mlOpset !== null),
    )
    this.#turns = [...subjects, ...seldom, ...seldom, ...seldom]
  }

  static async open(): Promise<GraphSource> {
    const templates: Template[] = []
    for (const operatorCase of allCases) {
      const template = await templateOf(operatorCase)
      if (template !== null) templates.push(template)
    }
    return new GraphSource(templates)
  }

  get subjects(): readonly string[] {
    return [...this.#bySubject.keys()]
  }

  /** The text of the graph of a seed. */
  graph(seed: number): string {
    const turn = this.#turns[Math.floor(((seed * 0.6180339887) % 1) * this.#turns.length)]!
    return new Growth(seed, turn, this.#bySubject).grow()
  }
}

/** `null` for a case that cannot be a part: what it gives has no certain shape. */
async function templateOf({ text, expected, subject }: OperatorCase): Promise<Template | null> {
  if (text.includes('fn ')) return null
  const opset = Number(/@(\d+)/.exec(text)?.[1] ?? 21)
  const mlOpset = Number(/@ml(\d+)/.exec(text)?.[1] ?? 0) || null
  const plain = text.replaceAll(/@(ml)?\d+/g, '')
  const { inputs } = parseGraph(plain)
  const { body, names } = asPart(plain)
  // Older versions may mean something else by the same words.
  for (const version of opset < 14 ? [opset] : [newestOpset, opset]) {
    const outputs = await learnOutputs(
      `${plain}\n@${version}${mlOpset === null ? '' : ` @ml${mlOpset}`}`,
      names,
    )
    if (outputs.length > 0) return { subject, text: body, inputs, outputs, expected, opset: version, mlOpset }
  }
  return null
}

/** Its lines with places for inputs and before names, and the names of what it gives. */
function asPart(text: string): { body: string; names: readonly string[] } {
  const [, body, served = ''] = /^([^]*?)(?:->\s*([-\d_][^{}]*|\w+ \d[^{}]*))?$/.exec(text)!
  const lines = body!.trim().split('\n')
  if (!/^[\w, ]+ = /.test(lines.at(-1)!)) lines[lines.length - 1] = `out = ${lines.at(-1)}`
  const given = [...lines.join('\n').matchAll(/(?:^|[;{)\n])\s*([\w, ]+) = /g)].flatMap(([, left]) =>
    left!.split(/,\s*/),
  )
  const own = new Set(given.filter((name) => name !== '_'))
  let input = 0
  const marked = lines.join('\n')
    .replaceAll(/(?<!['.])\b[a-z]\w*\b(?![(=\w.'])/gi, (name) => (own.has(name) ? `%${name}` : name))
    .replaceAll(/\bin\([^)]*\)/g, () => `$${input++}`) // prettier-ignore
  const last = /^([\w, ]+) = /.exec(lines.at(-1)!)![1]!.split(/,\s*/)
  const axes = served.split(',').map((part) => part.trim())
  const names = /^[a-z]/.test(served)
    ? axes.map((part) => part.split(' ')[0]!)
    : last.filter((_, index) => served === '' || (axes[index] ?? '_') !== '_')
  return { body: marked, names }
}

/** Outputs whose shapes go by the number of rows alone. */
async function learnOutputs(text: string, names: readonly string[]): Promise<Grown[]> {
  const graph = parseGraph(text)
  try {
    const session = await openGraph(graph.model)
    const runs = [
      await sampleRun(session, graph, 2),
      await sampleRun(session, graph, 3),
      await sampleRun(session, graph, 4),
    ]
    await session.release()
    return graph.outputs.flatMap(({ name: given, batchAxis }, index) => {
      const [two, three, four] = runs.map((run) => run[given]!)
      const dims = two!.dims.map((size, axis) => ({
        of: three!.dims[axis]! - size,
        more: 3 * size - 2 * three!.dims[axis]!,
      }))
      if (dims.some(({ of, more }, axis) => of < 0 || more < 0 || 4 * of + more !== four!.dims[axis]))
        return []
      const ofRows = [...dims.keys()].filter((axis) => dims[axis]!.of > 0)
      const isRows = ({ of, more }: Size) => of === 1 && more === 0
      const axis =
        ofRows.length !== 1 || !isRows(dims[ofRows[0]!]!)
          ? -1
          : isRows(dims[batchAxis] ?? fixed(1))
            ? batchAxis
            : ofRows[0]!
      const type = two!.type as ElementType
      const isWild =
        isFloat(type) &&
        runs.some((run) =>
          Array.from(run[given]!.data as Float32Array).some((value) => !Number.isFinite(value)),
        )
      return [{ name: names[index]!, type, dims, axis, outer: 1, inner: 1, isWild }]
    })
  } catch {
    return [] // not in this version, or not for these numbers of rows
  }
}

/** One graph while it grows. */
class Growth {
  readonly #random: Random
  readonly #templates: ReadonlyMap<string, readonly Template[]>
  readonly #lines: string[] = []
  readonly #values: Grown[] = []
  /** Whether all that it is made of keeps rows apart. */
  readonly #isPure: boolean
  #opset = newestOpset
  #mlOpset: number | null = null
  #names = 0
  /** The subject that it begins with. */
  readonly #first: string

  constructor(seed: number, first: string, templates: ReadonlyMap<string, readonly Template[]>) {
    this.#random = mulberry32(seed)
    this.#templates = templates
    this.#first = first
    this.#isPure = this.#random() < 0.55
  }

  grow(): string {
    const steps = 3 + this.#below(6)
    for (let step = 0; step < steps; step++) {
      if (step > 0 && this.#chance(0.25)) this.#free()
      else this.#template()
    }
    const outputs = this.#outputs()
    return [
      ...this.#lines,
      `@${this.#opset}`,
      ...(this.#mlOpset === null ? [] : [`@ml${this.#mlOpset}`]),
      outputs,
    ].join('\n')
  }

  /** The last value, and most of those that lead nowhere else. */
  #outputs(): string {
    const usable = this.#values.filter(
      ({ axis, dims }) => axis >= 0 && dims.filter(({ of }) => of > 0).length === 1,
    )
    if (usable.length === 0) usable.push(this.#input(['float32', [rows, fixed(3)]], null))
    const text = this.#lines.join('\n')
    const ends = usable
      .slice(0, -1)
      .filter(({ name }) => text.split(new RegExp(`\\b${name}\\b`)).length === 2 && this.#chance(0.8))
    const apart = [...ends.slice(-4), usable.at(-1)!].map((value) =>
      this.#unmerged(this.#like(value, value.name, {})),
    )
    return `-> ${apart.map(({ name, axis }) => `${name} ${axis}`).join(', ')}`
  }

  // Parts of operator cases

  #template(): void {
    for (let tries = 0; tries < 20; tries++) {
      const isFirst = this.#lines.length === 0
      const subjects = [...this.#templates.keys()]
      const all = this.#templates.get(isFirst && tries === 0 ? this.#first : this.#pick(subjects))!
      const isToMeet = !this.#isPure && this.#chance(0.6)
      const isWanted = ({ expected }: Template) =>
        isToMeet
          ? expected === 'dependent'
          : expected === 'independent' || (expected === 'same' && this.#chance(0.25))
      const fitting = all.filter(isWanted)
      if (fitting.length === 0) continue
      const template = this.#pick(fitting)
      if (!isFirst && template.opset !== this.#opset) continue
      if (!isFirst && template.mlOpset !== this.#mlOpset && template.text.includes('ml.')) continue
      if (isFirst) [this.#opset, this.#mlOpset] = [template.opset, template.mlOpset]
      this.#place(template)
      return
    }
    this.#free()
  }

  #place({ text, inputs, outputs, expected }: Template): void {
    const prefix = `t${this.#names++}_`
    const operands = inputs.map((input) => this.#operand(input))
    this.#lines.push(
      text.replaceAll('%', prefix).replaceAll(/\$(\d+)/g, (_, index: string) => operands[Number(index)]!),
    )
    for (const output of outputs)
      this.#values.push({
        ...output,
        name: `${prefix}${output.name}`,
        axis: expected === 'dependent' && output.dims[output.axis]?.of !== 1 ? -1 : output.axis,
      })
  }

  /** The name of a value that fits an input of a case. */
  #operand(input: GraphInput): string {
    const { type, dims, range } = input
    const wanted = dims.map((size) => (size === 'N' ? rows : fixed(size)))
    if (batchAxisOf(input) < 0) {
      const kind = `${type} ${dims.join(',')} ${range === null ? '' : range.join('..')}`
      return type === 'string' || this.#chance(0.4)
        ? this.#input([type, wanted], range).name
        : this.#add(`k(${kind})`, type, wanted, { axis: -1 }, false).name
    }
    const given = this.#values.filter(
      (value) =>
        value.axis >= 0 &&
        value.type !== 'string' &&
        value.type !== 'float16' &&
        count(value.dims) <= mostElements,
    )
    if (type === 'string' || given.length === 0 || this.#chance(0.25))
      return this.#input([type, wanted], range).name
    const value = this.#chance(0.5) ? given.at(-1)! : this.#pick(given)
    const fits =
      value.type === type &&
      range === null &&
      String(value.dims.map(shownSize)) === String(wanted.map(shownSize))
    return fits && !value.isWild && isFloat(type)
      ? value.name
      : this.#adapted(value, type, wanted, range).name
  }

  #input([type, dims]: [ElementType, readonly Size[]], range: readonly [number, number] | null): Grown {
    const axis = dims.findIndex(({ of }) => of > 0)
    const kind = `${type} ${dims.map(({ of, more }) => (of > 0 ? 'N' : more)).join(',')} ${range === null ? '' : range.join('..')}`
    return this.#add(`in(${kind})`, type, dims, { axis }, axis >= 0)
  }

  // Adapters: from any value to the type and shape that is wanted, its rows apart

  #adapted(
    value: Grown,
    type: ElementType,
    dims: readonly Size[],
    range: readonly [number, number] | null,
  ): Grown {
    const axis = dims.findIndex(({ of }) => of > 0)
    const width = count(dims)
    let flat = this.#flat(this.#unmerged(value))
    if (flat.type !== 'float32') flat = this.#like(flat, `Cast(${flat.name}) to=float32`, { type: 'float32' })
    if (flat.isWild || this.#chance(0.15))
      flat = this.#like(flat, `Where(IsNaN(${flat.name}), 0.5, Clip(${flat.name}, -30000.0, 30000.0))`, {
        isWild: false,
      })
    flat = this.#widened(flat, width)
    flat = this.#typed(flat, type, range)
    return this.#shaped(flat, dims, axis)
  }

  /** Its rows in a dimension of their own. */
  #unmerged(value: Grown): Grown {
    const { dims, axis, outer, inner, name } = value
    if (outer === 1 && inner === 1) return value
    const parts = [...(outer === 1 ? [] : [fixed(outer)]), rows, ...(inner === 1 ? [] : [fixed(inner)])]
    const shape = [...dims.slice(0, axis), ...parts, ...dims.slice(axis + 1)]
    return this.#like(value, `Reshape(${name}, [${shape.map(({ of, more }) => (of > 0 ? -1 : more))}])`, {
      dims: shape,
      axis: axis + (outer === 1 ? 0 : 1),
      outer: 1,
      inner: 1,
    })
  }

  /** [N, values]. */
  #flat(value: Grown): Grown {
    const { dims, axis } = value
    let first = value
    if (axis > 0) {
      const perm = [axis, ...dims.keys()].filter((other, place) => place === 0 || other !== axis)
      first = this.#like(value, `Transpose(${value.name}) perm=[${perm}]`, {
        dims: perm.map((from) => dims[from]!),
        axis: 0,
      })
    }
    const width = count(dims)
    if (first.dims.length === 2 && this.#chance(0.8)) return first
    const ways = [
      `Reshape(${first.name}, [-1,${width}])`,
      `Flatten(${first.name})`,
      ...(first.dims.length > 1 ? [`Reshape(${first.name}, [0,-1])`] : []),
      `Reshape(${first.name}, Concat(${this.#rowsOf(first)}, [${width}]) axis=0)`,
    ]
    return this.#like(first, this.#pick(ways), { dims: [rows, fixed(width)] })
  }

  /** The number of rows as int64 [1], by one of the ways of exporters. */
  #rowsOf({ name }: Grown): string {
    const ways = [
      `Slice(Shape(${name}), [0], [1])`,
      `Gather(Shape(${name}), [0])`,
      `Reshape(Gather(Shape(${name}), 0), [1])`,
    ]
    if (this.#isNew())
      ways.push(
        `Shape(${name}) start=0 end=1`,
        `Unsqueeze(Gather(Shape(${name}), 0), [0])`,
        `Cast(Floor(Cast(Shape(${name}) start=0 end=1) to=float32)) to=int64`,
      )
    return this.#pick(ways)
  }

  #widened(flat: Grown, width: number): Grown {
    const own = count(flat.dims)
    if (own === width) return flat
    const picked = Array.from({ length: width }, () => this.#below(own))
    const ways = [`MatMul(${flat.name}, k(${own},${width}))`, `Gather(${flat.name}, [${picked}]) axis=1`]
    if (own > width && this.#isNew())
      ways.push(
        `Slice(${flat.name}, [0], [${width}], [1])`,
        `Slice(${flat.name}, [-${width}], [9223372036854775807], [1])`,
      )
    if (own < width && this.#isNew())
      ways.push(
        `Pad(${flat.name}, [0,0,0,${width - own}])`,
        `Slice(Tile(${flat.name}, [1,${Math.ceil(width / own)}]), [0], [${width}], [1])`,
      )
    return this.#like(flat, this.#pick(ways), { dims: [rows, fixed(width)] })
  }

  #typed(flat: Grown, type: ElementType, range: readonly [number, number] | null): Grown {
    if (type === 'bool') return this.#like(flat, `Greater(${flat.name}, 0.0)`, { type })
    if (isFloat(type)) {
      const bounded =
        range === null
          ? flat
          : this.#like(
              flat,
              `Add(Mul(Sigmoid(${flat.name}), ${decimal(range[1] - range[0])}), ${decimal(range[0])})`,
              {},
            )
      return type === 'float32' ? bounded : this.#like(bounded, `Cast(${bounded.name}) to=${type}`, { type })
    }
    const [least, most] = range ?? (type.startsWith('uint') ? [0, 6] : [-5, 6])
    const tame = this.#like(flat, `Where(IsNaN(${flat.name}), ${decimal(least)}, ${flat.name})`, {})
    const clipped =
      this.#opset < 11
        ? `Max(Min(${tame.name}, ${decimal(most - 1)}), ${decimal(least)})`
        : `Clip(${tame.name}, ${decimal(least)}, ${decimal(most - 1)})`
    const whole =
      type === 'uint32' || type === 'uint64' ? `Cast(Floor(${clipped})) to=int64` : `Floor(${clipped})` // floats that do not fit go there by their places
    return this.#like(tame, `Cast(${whole}) to=${type}`, { type })
  }

  #shaped(flat: Grown, dims: readonly Size[], axis: number): Grown {
    const others = dims.filter((_, index) => index !== axis)
    const numbers = others.map(({ more }) => more)
    const shape = [rows, ...others]
    const ways = [
      `Reshape(${flat.name}, [-1${numbers.map((size) => `,${size}`).join('')}])`,
      `Reshape(${flat.name}, Concat(${this.#rowsOf(flat)}, [${numbers}]) axis=0)`,
      `Reshape(${flat.name}, [0${numbers.map((size) => `,${size}`).join('')}])`,
    ]
    const shaped =
      others.length === 1 && this.#chance(0.8)
        ? flat
        : this.#like(flat, this.#pick(others.length === 0 ? ways.slice(0, 1) : ways), { dims: shape })
    if (axis === 0) return shaped
    const from = [...dims.keys()].map((place) => (place === axis ? 0 : place < axis ? place + 1 : place))
    return this.#like(shaped, `Transpose(${shaped.name}) perm=[${from}]`, { dims, axis })
  }

  // Steps that go with any shape

  #free(): void {
    const given = this.#values.filter(
      ({ axis, type, dims }) =>
        axis >= 0 &&
        type === 'float32' &&
        dims.length > 0 &&
        count(dims) <= mostElements &&
        dims.filter(({ of }) => of > 0).length === 1,
    )
    const value =
      given.length === 0
        ? this.#input(
            [
              'float32',
              this.#pick([
                [rows, fixed(4)],
                [rows, fixed(2), fixed(3)],
                [fixed(2), rows, fixed(3)],
              ]),
            ],
            null,
          )
        : this.#chance(0.6)
          ? given.at(-1)!
          : this.#pick(given)
    if (value.isWild && this.#chance(0.7)) {
      this.#like(value, `Where(IsNaN(${value.name}), 0.5, Clip(${value.name}, -1000.0, 1000.0))`, {
        isWild: false,
      })
      return
    }
    const steps = [
      this.#unary,
      this.#beside,
      this.#withConstant,
      this.#alongAxis,
      this.#transposed,
      this.#merged,
      this.#unsqueezed,
      this.#selected,
      this.#joined,
      this.#expanded,
      this.#multiplied,
      this.#ownRow,
    ]
    if (!this.#isPure) steps.push(this.#byPosition, this.#alongAxis, this.#withConstant)
    this.#pick(steps).call(this, value)
  }

  readonly #unary = (value: Grown): void => {
    this.#like(
      value,
      `${this.#pick(['Relu', 'Tanh', 'Sigmoid', 'Neg', 'Abs', 'Erf', 'Softsign', 'Identity', 'Floor'])}(${value.name})`,
      {},
    )
  }

  /** With another value, or with itself in another form. */
  readonly #beside = (value: Grown): void => {
    const alike = this.#values.filter(
      ({ type, axis, outer, inner, dims }) =>
        type === 'float32' &&
        axis === value.axis &&
        outer === value.outer &&
        inner === value.inner &&
        String(dims.map(shownSize)) === String(value.dims.map(shownSize)),
    )
    const other =
      this.#chance(0.5) || this.#isPure
        ? this.#pick(alike)
        : this.#pick(
            this.#values
              .filter(
                ({ type, dims }) =>
                  type === 'float32' &&
                  dims.length <= 3 &&
                  dims.every(
                    ({ of, more }, place) =>
                      of + more === 1 ||
                      shownSize({ of, more }) === shownSize(value.dims.at(place - dims.length) ?? fixed(1)),
                  ),
              )
              .concat(alike),
          )
    this.#like(value, `${this.#pick(['Add', 'Mul', 'Max', 'Sub'])}(${value.name}, ${other.name})`, {
      isWild: value.isWild || other.isWild,
    })
  }

  /** Where rows may meet, its dims may be those of some rows. */
  readonly #withConstant = (value: Grown): void => {
    const { dims, axis, outer, inner } = value
    const ofRows = this.#isPure ? 1 : this.#pick([1, 1, 2, 3]) * outer * inner
    const all = dims.map(({ more }, place) => (place === axis ? ofRows : this.#chance(0.7) ? more : 1))
    const from = this.#isPure && this.#chance(0.3) ? Math.min(axis + 1, dims.length - 1) : 0
    const own = from > 0 && from <= axis ? all : all.slice(from)
    this.#like(value, `${this.#pick(['Add', 'Mul', 'Div', 'Min', 'PRelu'])}(${value.name}, k(${own}))`, {})
  }

  readonly #alongAxis = (value: Grown): void => {
    const { dims, axis, name } = value
    const places = [...dims.keys()].filter((place) => place !== axis || !this.#isPure)
    if (places.length === 0) return
    const along = this.#pick(places)
    const inVersion = (text: string) => (this.#isNew() ? text : `Softmax(${name}) axis=${dims.length - 1}`)
    if (!this.#isNew() && axis === dims.length - 1 && this.#isPure) return
    const reduce = this.#pick(['ReduceMax', 'ReduceMean', 'ReduceL2', 'ReduceMin'])
    const ways = [
      `Softmax(${name}) axis=${along}`,
      `LogSoftmax(${name}) axis=${along}`,
      `CumSum(${name}, ${along})`,
      `Sub(${name}, ${reduce}(${name}, [${along}]))`,
      `LpNormalization(${name}) axis=${along}`,
      `Mul(${name}, Hardmax(${name}) axis=${along})`,
    ]
    this.#like(value, inVersion(this.#pick(ways)), {})
    if (!this.#isNew() || along === axis || this.#chance(0.6)) return
    const left = dims.filter((_, place) => place !== along)
    this.#like(value, `${reduce}(${name}, [${along}]) keepdims=0`, {
      dims: left,
      axis: along < axis ? axis - 1 : axis,
    })
  }

  readonly #transposed = (value: Grown): void => {
    const perm = [...value.dims.keys()]
      .map((place) => ({ place, key: this.#random() }))
      .sort((a, b) => a.key - b.key)
      .map(({ place }) => place)
    this.#like(value, `Transpose(${value.name}) perm=[${perm}]`, {
      dims: perm.map((place) => value.dims[place]!),
      axis: perm.indexOf(value.axis),
    })
  }

  /** The rows' dimension and one beside it become one, as [N * heads], or apart again. */
  readonly #merged = (value: Grown): void => {
    const { dims, axis, outer, inner, name } = value
    if (outer * inner > 1 && this.#chance(0.5)) {
      this.#unmerged(value)
      return
    }
    const withNext = axis + 1 < dims.length && (axis === 0 || this.#chance(0.5))
    if (!withNext && axis === 0) return
    const at = withNext ? axis : axis - 1
    const other = dims[withNext ? axis + 1 : axis - 1]!.more
    const shape = [...dims.slice(0, at), { of: dims[axis]!.of * other, more: 0 }, ...dims.slice(at + 2)]
    const numbers = shape.map(({ of, more }) => (of > 0 ? -1 : more))
    // Wrong on purpose where rows may meet: apart again as if the other were outside.
    this.#like(value, `Reshape(${name}, [${numbers}])`, {
      dims: shape,
      axis: at,
      outer: withNext ? outer : outer * other,
      inner: withNext ? inner * other : inner,
    })
    if (this.#isPure || this.#chance(0.6)) return
    const last = this.#values.at(-1)!
    const split = this.#chance(0.5) ? [fixed(other), dims[axis]!] : [dims[axis]!, fixed(other)]
    const again = [...shape.slice(0, at), ...split, ...shape.slice(at + 1)]
    this.#like(last, `Reshape(${last.name}, [${again.map(({ of, more }) => (of > 0 ? -1 : more))}])`, {
      dims: again,
      axis: again.findIndex(({ of }) => of > 0),
      outer: 1,
      inner: dims[axis]!.of,
    })
  }

  readonly #unsqueezed = (value: Grown): void => {
    if (!this.#isNew()) return
    const { dims, axis, name } = value
    const ones = [...dims.keys()].filter(
      (place) => place !== axis && dims[place]!.more === 1 && dims[place]!.of === 0,
    )
    if (ones.length > 0 && this.#chance(0.6)) {
      const out = this.#pick(ones)
      this.#like(value, `Squeeze(${name}, [${out}])`, {
        dims: dims.filter((_, place) => place !== out),
        axis: out < axis ? axis - 1 : axis,
      })
      return
    }
    if (dims.length > 4) return
    const place = this.#below(dims.length + 1)
    this.#like(value, `Unsqueeze(${name}, [${place}])`, {
      dims: dims.toSpliced(place, 0, fixed(1)),
      axis: place <= axis ? axis + 1 : axis,
    })
  }

  /** A part of an axis; of the rows themselves where rows may meet. */
  readonly #selected = (value: Grown): void => {
    const { dims, axis, name } = value
    const places = [...dims.keys()].filter((place) => place !== axis && dims[place]!.more > 1)
    if (!this.#isPure && this.#chance(0.3)) {
      this.#like(
        value,
        this.#pick([
          `Sub(${name}, Gather(${name}, [0]) axis=${axis})`,
          `Add(${name}, ReduceMax(Slice(${name}, [0], [2], [${axis}]), [${axis}]))`,
        ]),
        {},
      )
      return
    }
    if (places.length === 0 || !this.#isNew()) return
    const along = this.#pick(places)
    const size = dims[along]!.more
    const kept = 1 + this.#below(size)
    const indices = Array.from({ length: kept }, () => this.#below(size))
    const ways = [
      `Slice(${name}, [${size - kept}], [${size}], [${along}])`,
      `Gather(${name}, [${indices}]) axis=${along}`,
      `Slice(${name}, [-1], [-${kept + 1}], [${along}], [-1])`,
    ]
    this.#like(value, this.#pick(ways), { dims: dims.with(along, fixed(kept)) })
  }

  readonly #joined = (value: Grown): void => {
    const { dims, axis, name } = value
    const places = [...dims.keys()].filter((place) => place !== axis)
    if (places.length === 0) return
    const along = this.#pick(places)
    const other = this.#pick(['Relu', 'Neg', 'Identity'])
    this.#like(value, `Concat(${name}, ${other}(${name})) axis=${along}`, {
      dims: dims.with(along, fixed(2 * dims[along]!.more)),
    })
  }

  readonly #expanded = (value: Grown): void => {
    const { dims, name, axis } = value
    const target = this.#chance(0.5)
      ? `Shape(${name})`
      : `[${dims.map(({ more }, place) => (place === axis ? 1 : more))}]`
    const ways = [
      `Expand(${name}, ${target})`,
      `Add(${name}, Expand(k(${dims.map(() => 1)}), Shape(${name})))`,
      `Mul(${name}, ConstantOfShape(Shape(${name})) value=float32:[2])`,
      `Reshape(${name}, Shape(${name}))`,
    ]
    this.#like(value, this.#pick(ways), {})
  }

  readonly #multiplied = (value: Grown): void => {
    const { dims, axis, name } = value
    if (axis === dims.length - 1) return
    const width = 1 + this.#below(5)
    this.#like(value, `MatMul(${name}, k(${dims.at(-1)!.more},${width}))`, {
      dims: dims.with(-1, fixed(width)),
    })
  }

  /** A gather from all rows that is meant to reach its own. */
  readonly #ownRow = (value: Grown): void => {
    const { dims, axis, outer, inner, name } = value
    if (axis !== 0 || outer * inner > 1 || dims.length < 2 || !this.#isNew()) return
    const size = dims[1]!.more
    const stride = this.#isPure ? size : this.#pick([size, 1, size + 1])
    const index = `ArgMax(${this.#flat(value).name}) axis=1 keepdims=0`
    const bounded = this.#isPure || this.#chance(0.5) ? `Mod(${index}, ${size})` : index
    const limit = `Sub(Mul(Gather(Shape(${name}), 0), ${size}), 1)`
    const place = `Min(Add(Mul(Range(0, Gather(Shape(${name}), 0), 1), ${stride}), ${bounded}), ${limit})`
    const own = this.#isPure ? `Add(Mul(Range(0, Gather(Shape(${name}), 0), 1), ${size}), ${bounded})` : place
    const rest = dims.slice(2)
    this.#like(
      value,
      `Gather(Reshape(${name}, [-1${rest.map(({ more }) => `,${more}`).join('')}]), ${own})`,
      { dims: [rows, ...rest] },
    )
  }

  /** A value that depends on the number of rows, or on the place among them. */
  readonly #byPosition = (value: Grown): void => {
    const { dims, axis, name } = value
    if (!this.#isNew()) return
    const size = `Gather(Shape(${name}), ${axis})`
    const column = `Reshape(Cast(Range(0, ${size}, 1)) to=float32, [${dims.map((_, place) => (place === axis ? -1 : 1))}])`
    this.#like(
      value,
      this.#pick([
        `Add(${name}, ${column})`,
        `Div(${name}, Cast(${size}) to=float32)`,
        `Mul(${name}, CumSum(ConstantOfShape(Shape(${name})) value=float32:[1], ${axis}))`,
      ]),
      {},
    )
  }

  // Helpers

  #like(value: Grown, text: string, changed: Partial<Grown>): Grown {
    return this.#add(text, changed.type ?? value.type, changed.dims ?? value.dims, { ...value, ...changed })
  }

  #add(
    text: string,
    type: ElementType,
    dims: readonly Size[],
    { axis = -1, outer = 1, inner = 1, isWild = false }: Partial<Grown>,
    isKept = true,
  ): Grown {
    const name = `r${this.#names++}`
    this.#lines.push(`${name} = ${text}`)
    const value = { name, type, dims, axis, outer, inner, isWild }
    if (isKept) this.#values.push(value)
    return value
  }

  /** Whether the operators are those of versions from 18 on. */
  #isNew(): boolean {
    return this.#opset >= 18
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }

  #chance(share: number): boolean {
    return this.#random() < share
  }

  #pick<T>(from: readonly T[]): T {
    return from[this.#below(from.length)]!
  }
}

function shownSize({ of, more }: Size): string {
  return `${of}N+${more}`
}

/** A number as text that is read as a float. */
function decimal(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value)
}
