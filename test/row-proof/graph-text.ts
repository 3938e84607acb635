import { attribute, float, type AttributeValue } from '../models/attribute.ts'
import { constant, tensor } from '../models/builder.ts'
import { elementTypeCode, type ElementType } from '../models/element-type.ts'
import {
  encodeModel,
  type FunctionProto,
  type GraphProto,
  type NodeProto,
  type TensorProto,
  type TypeProto,
} from '../models/proto.ts'
import { mulberry32, type Random } from '../models/random.ts'

/**
 * Graphs as text, a node a line:
 *
 *     x = in(N,3)                  an input, float32 where no type is given; N is the batch; without N all requests share it
 *     i = in(int64 N,2 <5)         values 0..4; `-3..3` gives both ends
 *     w = k(3,4)                   a constant of random numbers; `k(int64 3 <5)` of other types and ranges
 *     y, z = TopK(x, [2]) axis=1   a node; [2] and [[1,2],[3,4]] are constants, 1 and 1.5 are scalars, uint8:7 and int32:[1] have a type
 *     c = If(b) then_branch={ t = Relu(x) -> t } else_branch={ -> x }
 *     l = Loop(3, _, x) body={ (i int64[], c bool[], s float32) u = Add(s, s) -> c, u }
 *     fn local.F(a, b) { u = Add(a, b) -> u }
 *
 * Nodes may stand where names do: `Add(in(N,3), Relu(in(N,3)))`. Lines end at ends of lines or at `;`. The last line says by
 * `-> 0,_` where the rows of the last node's outputs lie (`_`: it is not served; default: 0 for each), and `-> a 0, b 1` of
 * which values. `@19` is the opset, `@ml5` that of ai.onnx.ml. `ms.` and `ml.` stand for com.microsoft and ai.onnx.ml.
 */
export interface GraphText {
  readonly model: Uint8Array
  readonly inputs: readonly GraphInput[]
  readonly outputs: readonly GraphOutput[]
  /** The model without nodes from which no output is reached. */
  readonly withoutDeadEnds: () => Uint8Array
  /** Of nodes from which an output is reached, with their domains, as often as they occur. */
  readonly operators: readonly string[]
}

export interface GraphInput {
  readonly name: string
  readonly type: ElementType
  /** 'N' is the batch. */
  readonly dims: readonly (number | 'N')[]
  /** Least and largest value (exclusive); null: rows of extreme scales, or a few small integers. */
  readonly range: readonly [number, number] | null
}

export interface GraphOutput {
  readonly name: string
  readonly batchAxis: number
}

const domains: Readonly<Record<string, string>> = { ms: 'com.microsoft', ml: 'ai.onnx.ml' }
const defaultOpset = 21

/** Dimension that counts rows, -1 where all requests share the input. */
export const batchAxisOf = ({ dims }: Pick<GraphInput, 'dims'>): number => dims.indexOf('N')

export function parseGraph(text: string): GraphText {
  return new GraphParser(text).parse()
}

const token =
  /\s*(\.\.|->|'[^']*'|-?\d+(?:\.\d+)?(?:e-?\d+)?|-?inf\b|nan\b|[A-Za-z_][\w]*(?:\.[A-Za-z]\w*)?|[^\s])/y

/** Numbers or strings as they were written; without brackets no dims. */
interface Listed {
  readonly values: readonly (number | bigint | string)[]
  readonly isFloat: boolean
  readonly dims: readonly number[]
}

class GraphParser {
  readonly #tokens: string[] = []
  #at = 0
  readonly #inputs: GraphInput[] = []
  readonly #functions: FunctionProto[] = []
  readonly #graphs: GraphProto[] = []
  #names = 0
  readonly #text: string
  readonly #random: Random = mulberry32(7)
  #opset = defaultOpset
  #mlOpset = 3

  constructor(text: string) {
    this.#text = text
    const lines = text
      .replaceAll(/#.*$/gm, '')
      .trim()
      .replaceAll(/[ \t]*\n\s*/g, '\n')
      .replaceAll('\n', ';')
    token.lastIndex = 0
    for (let found = token.exec(lines); found !== null; found = token.exec(lines))
      this.#tokens.push(found[1]!)
  }

  parse(): GraphText {
    const main = this.#open('main')
    let last: string[] = []
    let outputs: GraphOutput[] | null = null
    while (this.#at < this.#tokens.length) {
      if (this.#take(';')) continue
      if (this.#take('@')) this.#version(this.#next())
      else if (this.#take('->')) outputs = this.#rows(last)
      else if (this.#take('fn')) this.#function()
      else last = this.#line()
    }
    outputs ??= last.map((name) => ({ name, batchAxis: 0 }))
    // No types: ONNX Runtime infers them.
    main.output = outputs.map(({ name }) => ({ name, type: {} }))
    const opsetImport = [
      { domain: '', version: this.#opset },
      { domain: 'com.microsoft', version: 1 },
      { domain: 'ai.onnx.ml', version: this.#mlOpset },
      ...(this.#functions.length > 0 ? [{ domain: 'local', version: 1 }] : []),
    ]
    const functions = this.#functions.map((one) => ({ ...one, opsetImport: opsetImport }))
    const encode = (graph: GraphProto) =>
      encodeModel({ irVersion: 10, producerName: 'test', graph, opsetImport, metadataProps: [], functions })
    const called = functions.flatMap(({ node }) => node)
    return {
      model: encode(main),
      withoutDeadEnds: () => encode({ ...main, node: reached(main).toReversed() }),
      inputs: this.#inputs,
      outputs,
      operators: [...reached(main), ...called].flatMap(operatorsOf),
    }
  }

  #version(text: string): void {
    if (text.startsWith('ml')) this.#mlOpset = Number(text.slice(2))
    else this.#opset = Number(text)
  }

  #open(name: string): GraphProto {
    const graph: GraphProto = { name, node: [], initializer: [], input: [], output: [], valueInfo: [] }
    this.#graphs.push(graph)
    return graph
  }

  get #graph(): GraphProto {
    return this.#graphs.at(-1)!
  }

  /** `a, b = Op(...)` or `Op(...)`; the names that it gave. */
  #line(): string[] {
    let names: string[] | undefined
    const start = this.#at
    const read: string[] = []
    do read.push(this.#next())
    while (this.#take(','))
    if (this.#take('=')) names = read
    else this.#at = start
    return this.#value(names)
  }

  /** A name, a constant, an input or a node: the names of its values. */
  #value(names?: string[]): string[] {
    const first = this.#next()
    if (first === '_') return ['']
    if (/^(\[|'|-?\d|-?inf$|nan$)/.test(first)) {
      this.#at--
      return [this.#listed(names?.[0])]
    }
    if (first in elementTypeCode && this.#take(':')) return [this.#listed(names?.[0], first as ElementType)]
    if (!this.#take('(')) {
      if (names === undefined) return [first]
      return this.#node('Identity', [first], names)
    }
    if (first === 'in') return [this.#input(names?.[0])]
    if (first === 'k') return [this.#randomConstant(names?.[0])]
    const inputs: string[] = []
    while (!this.#take(')')) {
      inputs.push(this.#value()[0]!)
      this.#take(',')
    }
    return this.#node(first, inputs, names)
  }

  #node(operator: string, input: string[], names?: string[]): string[] {
    const dot = operator.indexOf('.')
    const prefix = dot < 0 ? '' : operator.slice(0, dot)
    const domain = domains[prefix] ?? prefix
    const opType = operator.slice(dot + 1)
    const attributes: NodeProto['attribute'] = []
    while (/^[a-z]/i.test(this.#peek()) && this.#tokens[this.#at + 1] === '=' && !this.#isLineStart()) {
      const name = this.#next()
      this.#expect('=')
      if (this.#take('$'))
        attributes.push({ name, type: this.#typeCode(this.#next()), refAttrName: this.#next() })
      else attributes.push(attribute(name, this.#attributeValue()))
    }
    const output = names ?? [this.#fresh()]
    this.#graph.node.push({
      name: `${opType}_${this.#fresh()}`,
      opType,
      ...(domain && { domain }),
      input,
      output: output.map((name) => (name === '_' ? '' : name)),
      attribute: attributes,
    })
    return output
  }

  /** Attributes follow their node on the same line; the next line begins behind `;`. */
  #isLineStart(): boolean {
    return this.#tokens[this.#at - 1] === ';'
  }

  #typeCode(name: string): number {
    return (
      { float: 1, int: 2, string: 3, floats: 6, ints: 7, strings: 8 }[name] ??
      this.#fail(`no type of attributes: ${name}`)
    )
  }

  #attributeValue(): AttributeValue {
    const next = this.#peek()
    if (next === '{') return this.#body()
    if (next in elementTypeCode && this.#tokens[this.#at + 1] === ':') {
      this.#at += 2
      return this.#tensor('', next as ElementType)
    }
    if (next in elementTypeCode) return elementTypeCode[this.#next() as ElementType]
    const { values, isFloat, dims } = this.#list()
    if (typeof values[0] === 'string') return dims.length === 0 ? values[0] : (values as string[])
    const numbers = values as number[]
    const value = dims.length === 0 ? numbers[0]! : numbers
    return isFloat ? float(value) : value
  }

  /** `{ (i int64, ...) lines -> a, b }` */
  #body(): GraphProto {
    this.#expect('{')
    const graph = this.#open(this.#fresh())
    if (this.#take('(')) {
      while (!this.#take(')')) {
        const name = this.#next()
        graph.input.push({ name, type: this.#type() })
        this.#take(',')
      }
    }
    while (!this.#take('->')) if (!this.#take(';')) this.#line()
    do
      graph.output.push({
        name: this.#ownOutput(graph, this.#next()),
        type: this.#peek() in elementTypeCode ? this.#type() : {},
      })
    while (this.#take(','))
    this.#expect('}')
    this.#graphs.pop()
    return graph
  }

  /** `float32`, or `float32[]` of a scalar. */
  #type(): TypeProto {
    const type = this.#next() as ElementType
    return this.#take('[') ? (this.#expect(']'), tensor(type, [])) : tensor(type)
  }

  /** A body's outputs are made in it: what comes from outside, or is an input, goes through Identity. */
  #ownOutput(graph: GraphProto, name: string): string {
    if (
      graph.node.some(({ output }) => output.includes(name)) &&
      !graph.output.some((other) => other.name === name)
    )
      return name
    return this.#node('Identity', [name])[0]!
  }

  #function(): void {
    const name = this.#next()
    const attributes: string[] = []
    const input: string[] = []
    this.#expect('(')
    while (!this.#take(')')) {
      if (this.#take('$')) attributes.push(this.#next())
      else input.push(this.#next())
      this.#take(',')
    }
    const graph = this.#body()
    const node = [
      ...graph.initializer.map(({ name: output, ...value }) => ({
        name: `Constant_${output}`,
        opType: 'Constant',
        input: [],
        output: [output!],
        attribute: [attribute('value', value as TensorProto)],
      })),
      ...graph.node,
    ]
    this.#functions.push({
      name: name.slice(name.indexOf('.') + 1),
      domain: 'local',
      input,
      output: graph.output.map((output) => output.name),
      attribute: attributes,
      node,
      opsetImport: [],
    })
  }

  #input(name = this.#fresh('in')): string {
    const { type, dims, range } = this.#declared()
    this.#inputs.push({ name, type, dims, range })
    this.#graphs[0]!.input.push({ name, type: tensor(type, dims) })
    return name
  }

  #randomConstant(name = this.#fresh('k')): string {
    const { type, dims, range } = this.#declared()
    const sizes = dims as number[]
    const count = sizes.reduce((product, size) => product * size, 1)
    const isFloat = type.startsWith('float')
    const [least, most] = range ?? (isFloat ? [-1, 1] : [0, 3])
    const one = () => least + this.#random() * (most - least)
    this.#graph.initializer.push(
      constant(
        name,
        type,
        sizes,
        Array.from({ length: count }, () => (isFloat ? one() : Math.floor(one()))),
      ),
    )
    return name
  }

  /** `type dims range )` */
  #declared(): Omit<GraphInput, 'name'> {
    const type = this.#peek() in elementTypeCode ? (this.#next() as ElementType) : 'float32'
    const dims: (number | 'N')[] = []
    let range: [number, number] | null = null
    while (!this.#take(')')) {
      if (this.#take(',')) continue
      if (this.#take('<')) range = [0, this.#number()]
      else if (this.#take('N')) dims.push('N')
      else {
        const value = this.#number()
        if (this.#take('..')) range = [value, this.#number()]
        else dims.push(value)
      }
    }
    return { type, dims, range }
  }

  #listed(name = this.#fresh('k'), type?: ElementType): string {
    this.#graph.initializer.push(this.#tensor(name, type))
    return name
  }

  #tensor(name: string, type?: ElementType): TensorProto {
    const { values, isFloat, dims } = this.#list()
    return constant(
      name,
      type ?? (typeof values[0] === 'string' ? 'string' : isFloat ? 'float32' : 'int64'),
      dims,
      values as number[],
    )
  }

  /** A number or a string, or lists of them. */
  #list(): Listed {
    if (!this.#take('[')) {
      const text = this.#next()
      if (text.startsWith("'")) return { values: [text.slice(1, -1)], isFloat: false, dims: [] }
      if (/^-?\d{16,}$/.test(text)) return { values: [BigInt(text)], isFloat: false, dims: [] }
      const value = text === 'inf' ? Infinity : text === '-inf' ? -Infinity : Number(text)
      if (Number.isNaN(value) && text !== 'nan') this.#fail(`'${text}' is no number`)
      return { values: [value], isFloat: /[.einfa]/.test(text), dims: [] }
    }
    const items: Listed[] = []
    while (!this.#take(']')) {
      items.push(this.#list())
      this.#take(',')
    }
    return {
      values: items.flatMap(({ values }) => values),
      isFloat: items.some(({ isFloat }) => isFloat),
      dims: [items.length, ...(items[0]?.dims ?? [])],
    }
  }

  #rows(last: readonly string[]): GraphOutput[] {
    const outputs: GraphOutput[] = []
    for (let index = 0; ; index++) {
      const next = this.#next()
      const isName = /^[a-z]/i.test(next)
      const name = isName ? next : last[index]!
      const axis = isName ? this.#next() : next
      if (axis !== '_') outputs.push({ name, batchAxis: Number(axis) })
      if (!this.#take(',')) return outputs
    }
  }

  #fresh(prefix = 'v'): string {
    return `${prefix}${this.#names++}`
  }

  #number(): number {
    return Number(this.#next())
  }

  #peek(): string {
    return this.#tokens[this.#at] ?? ''
  }

  #next(): string {
    return this.#tokens[this.#at++] ?? this.#fail('it ends too early')
  }

  #take(wanted: string): boolean {
    if (this.#tokens[this.#at] !== wanted) return false
    this.#at++
    return true
  }

  #expect(wanted: string): void {
    if (!this.#take(wanted)) this.#fail(`'${wanted}' expected, '${this.#peek()}' found`)
  }

  #fail(problem: string): never {
    throw new Error(`${problem}, at ${this.#tokens.slice(0, this.#at).join(' ')} of:\n${this.#text}`)
  }
}

/** Nodes from which an output is reached. */
function reached(graph: GraphProto): NodeProto[] {
  const needed = new Set(graph.output.map(({ name }) => name))
  return graph.node.toReversed().filter((node) => {
    if (!node.output.some((name) => needed.has(name))) return false
    for (const name of namesUsed(node)) needed.add(name)
    return true
  })
}

function namesUsed(node: NodeProto): string[] {
  return [
    ...node.input,
    ...node.attribute.flatMap(({ g }) =>
      g ? [...g.node.flatMap(namesUsed), ...g.output.map(({ name }) => name)] : [],
    ),
  ]
}

function operatorsOf({ opType, domain, attribute: attributes }: NodeProto): string[] {
  const inside = attributes.flatMap(({ g }) => g?.node.flatMap(operatorsOf) ?? [])
  return domain === 'local' ? inside : [domain ? `${domain}:${opType}` : opType, ...inside]
}
