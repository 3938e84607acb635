import {
  isSame,
  named,
  ofLengths,
  ofRows,
  rowDim,
  shownDims,
  takeSteps,
  TooManySteps,
  withinSteps,
  type Dim,
} from './dims.ts'
import {
  functionKey,
  type Attribute,
  type OnnxFunction,
  type OnnxGraph,
  type OnnxModel,
  type OnnxNode,
} from './onnx-model.ts'
import { Operation, type Rules } from './operation.ts'
import { arithmetic, withElements } from './rules/arithmetic.ts'
import { graphs } from './rules/graphs.ts'
import { indexing } from './rules/indexing.ts'
import { mlDomain } from './rules/ml-domain.ts'
import { linear } from './rules/linear.ts'
import { constantOf, movement } from './rules/movement.ts'
import { quantisation } from './rules/quantised.ts'
import { recurrence } from './rules/recurrent.ts'
import { reductions } from './rules/reductions.ts'
import {
  countsRows,
  elementType,
  faultWithoutNode,
  rowsAt,
  tensor,
  type Fault,
  type Tensor,
  type Value,
} from './followed-values.ts'
import { dependent, NotProved, notFollowed, severalEntries } from './not-proved.ts'

/** The result of a proof. */
export interface RowProof {
  /**
   * | | joining requests |
   * |---|---|
   * | `independent` | changes no answer, for every number of rows and whatever they hold |
   * | `dependent` | lets rows meet, or gives values that depend on how many rows there are, or on their places |
   * | `unknown` | may be either: a node was not followed |
   */
  readonly rows: 'independent' | 'dependent' | 'unknown'
  /**
   * The first node at which rows mix, or that was not followed, such as `ReduceMax 'mel/max'`; `null` if no
   * node is at fault.
   */
  readonly node: string | null
  /** The reason as text. */
  readonly reason: string
}

/** A question about a model: the batch axes of its inputs and outputs. */
export interface RowQuestion {
  /** Inputs that requests give. Other inputs of the graph have their own values, or none. */
  readonly inputs: readonly RowInput[]
  /** Outputs in the answers to requests. */
  readonly outputs: readonly { readonly name: string; readonly batchAxis: number }[]
}

/** An input that requests give. */
interface RowInput {
  readonly name: string
  /** Numbers fix a dimension. Any other dimension has a length of its own, whatever its name. */
  readonly shape: readonly (number | string)[]
  /**
   * The dimension that counts rows; -1 for an input that all rows share: requests share a run only if it is
   * equal.
   */
  readonly batchAxis: number
  /** For a small input that all rows share: its elements in all requests that may share a run. */
  readonly elements?: readonly number[]
}

/** What each operator does with rows. An operator without an entry is not followed. */
export const rules: Rules = {
  ...arithmetic,
  ...movement,
  ...indexing,
  ...reductions,
  ...linear,
  ...quantisation,
  ...recurrence,
  ...graphs,
  ...mlDomain,
}

/** Domains of ONNX Runtime's own operators. */
const ownDomains: ReadonlySet<string> = new Set([
  '',
  'com.microsoft',
  'ai.onnx.ml',
  'ai.onnx.training',
  'ai.onnx.preview.training',
  'com.microsoft.nchwc',
  'com.ms.internal.nhwc',
  'org.pytorch.aten',
])

/** The newest operator set versions that the rules cover. Later ones may change operators. */
const newest = { '': 26, 'ai.onnx.ml': 5 }

/** Deepest nesting of function calls and subgraphs. */
const deepest = 50
/** Most nodes followed. Nodes of loops and functions count each time. */
const mostFollowed = 100_000
/** Most steps for all proofs of one model. A node costs some, even if it is only looked at. */
const mostSteps = 10_000_000
const stepsOfNode = 20

/**
 * Proves from the graph that requests may share a run: for every number of rows, and whatever they contain,
 * each row gives the same as alone. It follows each value of the graph with the place of its rows, by the
 * {@link rules} for operators. It runs nothing, and takes milliseconds.
 */
export function proveRows(model: OnnxModel, question: RowQuestion): RowProof {
  for (const [domain, version] of Object.entries(newest)) {
    const own = model.opsets.get(domain) ?? 0
    if (own > version)
      return unknown(
        `it uses version ${own} of the operators${domain === '' ? '' : ` of ${domain}`}: the proof knows them up to version ${version}`,
      )
  }
  const proof = new Proof(model)
  const outputs = proof.run(question)
  const first = worst(
    question.outputs.map(({ name, batchAxis }, index) => faultOf(name, batchAxis, outputs[index]!)),
  )
  if (first === null)
    return { rows: 'independent', node: null, reason: 'the graph shows that each row is computed by itself' }
  return { rows: first.verdict, node: first.node, reason: first.reason }
}

/**
 * Asks questions about a graph in turn, until one is proved. A graph that cannot be read or followed gets an
 * answer as well.
 *
 * @param read reads the graph; `null` for a file that only ONNX Runtime reads.
 * @param steps most steps of all proofs. If it is below the default, reading the graph counts, too.
 * @throws TooManySteps if they take more than such a number.
 */
export function answerQuestions(
  read: () => OnnxModel | null,
  questions: readonly RowQuestion[],
  steps = mostSteps,
): RowProof[] {
  const proofs: RowProof[] = []
  try {
    const answer = (graph: OnnxModel | null): void => {
      for (const question of questions) {
        proofs.push(proofOf(graph, question))
        if (proofs.at(-1)!.rows === 'independent') break
      }
    }
    if (steps < mostSteps) withinSteps(steps, () => answer(read()))
    else {
      const graph = read()
      withinSteps(steps, () => answer(graph))
    }
  } catch (error) {
    if (error instanceof TooManySteps && steps < mostSteps) throw error
    const failed = error instanceof TooManySteps ? 'followed' : 'read'
    proofs.push(unknown(`its graph cannot be ${failed}: ${(error as Error).message}`))
  }
  return proofs
}

function proofOf(graph: OnnxModel | null, question: RowQuestion): RowProof {
  if (graph === null) return unknown("its file is of ONNX Runtime's own format, whose graph is not read")
  try {
    return proveRows(graph, question)
  } catch (error) {
    if (error instanceof TooManySteps) throw error
    return unknown(`its graph cannot be followed: ${(error as Error).message}`)
  }
}

const unknown = (reason: string): RowProof => ({ rows: 'unknown', node: null, reason })

/** Why an output cannot be divided into the rows of each request; `null` if it can. */
function faultOf(name: string, batchAxis: number, value: Value): Fault | null {
  if (value.kind === 'fault') return value
  const wrong = (reason: string) =>
    faultWithoutNode('dependent', `output '${name}' ${reason}`, Number.MAX_SAFE_INTEGER)
  if (value.kind === 'list')
    return value.byRow && batchAxis === 0 ? null : wrong('is a sequence without an entry for each row')
  if (value.place !== null || value.columns !== null)
    return wrong('depends on the places of rows in the batch')
  if (value.rows === null)
    return wrong(countsRows(value) ? 'depends on the number of rows' : 'is the same for any number of rows')
  const { axis, outer, inner } = value.rows
  const isOneToOne = isSame(outer, 1) && isSame(inner, 1)
  if (axis !== batchAxis)
    return wrong(
      `has its rows along dimension ${axis}, and not along dimension ${batchAxis}${isOneToOne ? `: say \`batchAxis: ${axis}\` for it` : ''}`,
    )
  return isOneToOne ? null : wrong(`has the shape ${shownDims(value.shape)}, ${severalEntries}`)
}

/** Values by name: those of a graph, and of the enclosing graphs. */
class Scope {
  readonly #values = new Map<string, Value>()
  readonly #around: Scope | null

  constructor(around: Scope | null = null) {
    this.#around = around
  }

  get(name: string): Value {
    return this.#values.get(name) ?? this.#around?.get(name) ?? unmade(name)
  }

  /** Whether the value belongs to the graph itself. */
  has(name: string): boolean {
    return this.#values.has(name)
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value)
  }
}

/** Where nodes are followed: in the model's graph, a subgraph or a function. */
interface Frame {
  readonly scope: Scope
  readonly opsets: ReadonlyMap<string, number>
  /** Attributes of the call of a function. */
  readonly references: ReadonlyMap<string, Attribute>
  readonly lengths: OnnxGraph['lengths']
}

/** Follows the values of one model. */
class Proof {
  readonly #model: OnnxModel
  /** Types of the graph's inputs by name. */
  readonly #types: ReadonlyMap<string, number>
  #order = 0
  #depth = 0
  /** Calls and graphs around a node. They tell its symbols from those of the same node elsewhere. */
  #path = ''
  readonly #places = new Map<OnnxNode | OnnxGraph, number>()

  constructor(model: OnnxModel) {
    this.#model = model
    this.#types = new Map(model.graph.inputs.map(({ name, type }) => [name, type]))
  }

  run({ inputs, outputs }: RowQuestion): Value[] {
    const { graph, opsets } = this.#model
    const scope = new Scope()
    for (const input of inputs) scope.set(input.name, this.#given(input))
    this.#addInitializers(graph, scope)
    for (const { name } of graph.inputs) if (!scope.has(name)) scope.set(name, leftOut)
    const names = outputs.map(({ name }) => name)
    this.#runNodes(graph.nodes, { scope, opsets, references: new Map(), lengths: graph.lengths }, names)
    return names.map((name) => scope.get(name))
  }

  /**
   * An input as requests give it. Each length is a symbol of its own, as nothing makes lengths of the same
   * name equal.
   */
  #given({ name, shape, batchAxis, elements }: RowInput): Tensor {
    const type = this.#types.get(name) ?? elementType.undefined
    const dims = shape.map((dim, axis): Dim =>
      axis === batchAxis ? rowDim : typeof dim === 'number' ? dim : named(`${name}[${axis}]`),
    )
    if (batchAxis === -1 && elements !== undefined) return withElements(type, dims, elements)
    return tensor(type, dims, { rows: batchAxis === -1 ? null : rowsAt(batchAxis) })
  }

  #addInitializers({ initializers }: OnnxGraph, scope: Scope): void {
    takeSteps(initializers.size)
    for (const [name, stored] of initializers) if (!scope.has(name)) scope.set(name, constantOf(stored))
  }

  /** The same place has the same path each time, for example in each turn of a loop. */
  #within(place: OnnxNode | OnnxGraph, run: () => void): void {
    const path = this.#path
    if (!this.#places.has(place)) this.#places.set(place, this.#places.size)
    this.#path = `${path}${this.#places.get(place)!}/`
    try {
      run()
    } finally {
      this.#path = path
    }
  }

  /** @param wanted the values to follow; only nodes that they need are followed. */
  #runNodes(nodes: readonly OnnxNode[], frame: Frame, wanted: readonly string[]): void {
    if (this.#depth >= deepest || this.#order > mostFollowed)
      notFollowed('its functions and subgraphs are nested too deep, or run too often')
    this.#depth++
    takeSteps(stepsOfNode * nodes.length)
    const needed = neededNodes(nodes, wanted)
    for (const node of nodes) if (needed.has(node)) this.#runNode(node, frame)
    this.#depth--
  }

  #runNode(node: OnnxNode, frame: Frame): void {
    const { scope, lengths } = frame
    const order = this.#order++
    takeSteps(5 * (node.inputs.length + node.outputs.length))
    const inputs = node.inputs.map((name) => (name === '' ? null : scope.get(name)))
    const set = (values: readonly (Value | null)[]) => {
      for (const [index, name] of node.outputs.entries())
        if (name !== '') scope.set(name, checked(asDeclared(values[index] ?? unmade(name), name, lengths)))
    }
    const fault = (verdict: Fault['verdict'], reason: string): Fault => ({
      ...faultWithoutNode(verdict, `${shownNode(node)}: ${reason}`, order),
      node: shownNode(node),
    })
    try {
      const called = this.#model.functions.get(functionKey(node.domain, node.operator))
      const attributes = resolved(node.attributes, frame.references)
      set(
        called === undefined
          ? this.#operated(node, attributes, inputs, frame, fault)
          : this.#called(called, node, attributes, inputs),
      )
    } catch (error) {
      if (!(error instanceof NotProved)) throw error
      set(node.outputs.map(() => fault(error.verdict, error.message)))
    }
  }

  /** The values that an operator makes. */
  #operated(
    node: OnnxNode,
    attributes: OnnxNode['attributes'],
    inputs: readonly (Value | null)[],
    frame: Frame,
    fault: Operation['fault'],
  ): readonly (Value | null)[] {
    const key = node.domain === '' ? node.operator : `${node.domain}:${node.operator}`
    const given = inputs.map((value) =>
      value === leftOut ? null : key === 'Shape' || key === 'Size' ? shapeAlone(value) : value,
    )
    const rule = Object.hasOwn(rules, key) ? rules[key]! : notFollowed('the operator is not known')
    const runGraph = (graph: OnnxGraph, values: readonly Value[]): Value[] => {
      const scope = new Scope(frame.scope)
      // ONNX Runtime drops such an input, and takes the next one in its place.
      if (graph.inputs.some(({ name }) => graph.initializers.has(name)))
        notFollowed('an input of its subgraph also has an initializer')
      for (const [index, value] of values.entries())
        if (graph.inputs[index] !== undefined)
          scope.set(graph.inputs[index].name, asDeclared(value, graph.inputs[index].name, graph.lengths))
      this.#addInitializers(graph, scope)
      const inner = { ...frame, scope, lengths: graph.lengths }
      this.#within(graph, () => this.#runNodes(graph.nodes, inner, graph.outputs))
      return graph.outputs.map((name) => withoutShape(scope.get(name)))
    }
    const label = `${this.#path}${JSON.stringify(node.outputs.find((name) => name !== '') ?? '')}` // names from the file are quoted, so that they cannot equal a path
    const before = worst(given)
    if (before !== null) return node.outputs.map(() => withoutShape(before))
    const version = frame.opsets.get(node.domain) ?? 1
    const operation = new Operation({ ...node, attributes }, version, label, given, runGraph, fault)
    const result = rule(operation)
    operation.checkUnread()
    return [result].flat()
  }

  /** The outputs of a call of a function. */
  #called(
    { inputs: names, outputs, nodes, opsets, defaults }: OnnxFunction,
    node: OnnxNode,
    attributes: OnnxNode['attributes'],
    inputs: readonly (Value | null)[],
  ): readonly Value[] {
    if (ownDomains.has(node.domain))
      notFollowed('a function is in a domain of ONNX Runtime, which may have an operator with the same name')
    // ONNX Runtime may use the model's own version instead of the function's.
    const models = this.#model.opsets
    if ([...opsets].some(([domain, version]) => (models.get(domain) ?? version) !== version))
      notFollowed('a function uses other operator versions than the model')
    const scope = new Scope()
    for (const [index, name] of names.entries()) scope.set(name, inputs[index] ?? leftOut)
    const inner = { scope, opsets, references: new Map([...defaults, ...attributes]), lengths: none }
    this.#within(node, () => this.#runNodes(nodes, inner, outputs))
    return outputs.map((name) => scope.get(name))
  }
}

const none: OnnxGraph['lengths'] = new Map()

/**
 * Checks that the file declares no length that the value may not have. ONNX Runtime trusts the declaration
 * for `Shape`, for example in a file whose inputs were made variable while other declarations were left as
 * they were.
 */
function asDeclared(value: Value, name: string, lengths: OnnxGraph['lengths']): Value {
  const declared = lengths.get(name)
  if (declared === undefined) return value
  const shapes =
    value.kind === 'list'
      ? (value.items?.map(({ shape }) => shape) ??
        notFollowed(`the file declares the lengths of '${name}', but they are not known`))
      : value.shape === undefined
        ? []
        : [value.shape]
  for (const shape of shapes) {
    for (const each of declared) {
      // ONNX Runtime ignores a declaration with another number of dimensions.
      const isOther = (dim: Dim, axis: number) =>
        each[axis] !== null &&
        dim !== each[axis] &&
        (typeof dim === 'number' || ofRows(dim) || ofLengths(dim))
      if (shape.length === each.length && shape.some(isOther))
        notFollowed(
          `the file declares the shape [${each.map((length) => length ?? '?').join(', ')}] for '${name}', but it has ${shownDims(shape)}`,
        )
    }
  }
  return value
}

/** Rules never return this: a shape that depends on the number of rows, for a value without rows. */
function checked(value: Value): Value {
  if (value.kind === 'tensor' && value.rows === null && value.shape.some(ofRows))
    dependent(`the shape ${shownDims(value.shape)} depends on the number of rows`)
  return value
}

/** An input that requests or the caller of a function omit. */
const leftOut = faultWithoutNode('unknown', 'an omitted input has no value')

const unmade = (name: string): Fault => faultWithoutNode('unknown', `value '${name}' is computed by no node`)

/** A value of which only the shape is used may contain anything. */
function shapeAlone(value: Value | null): Value | null {
  return value?.kind === 'fault' && value.shape !== undefined
    ? tensor(elementType.undefined, value.shape)
    : value
}

/** A fault from another value, or from one of several branches or turns, has another shape. */
function withoutShape(value: Value): Value {
  return value.kind === 'fault' ? { ...value, shape: undefined } : value
}

/** The fault that counts: that rows mix comes before what is not known, and earlier nodes before later ones. */
function worst(values: readonly (Value | null)[]): Fault | null {
  const faults = values.filter((value): value is Fault => value?.kind === 'fault')
  const isDependent = ({ verdict }: Fault) => Number(verdict === 'dependent')
  return faults.sort((a, b) => isDependent(b) - isDependent(a) || a.order - b.order)[0] ?? null
}

function shownNode({ operator, domain, name, outputs }: OnnxNode): string {
  const own = name === '' ? outputs.find((output) => output !== '') : name
  return `${domain === '' || domain === 'com.microsoft' || domain === 'ai.onnx.ml' ? '' : `${domain}:`}${operator}${own === undefined ? '' : ` '${own}'`}`
}

/** Attributes of a node in a function, with those that refer to the function's attributes resolved. */
function resolved(
  attributes: ReadonlyMap<string, Attribute>,
  references: ReadonlyMap<string, Attribute>,
): ReadonlyMap<string, Attribute> {
  if (![...attributes.values()].some(({ reference }) => reference !== undefined && reference !== ''))
    return attributes
  return new Map(
    [...attributes].flatMap(([name, attribute]) => {
      if (attribute.reference === undefined || attribute.reference === '') return [[name, attribute] as const]
      const own = references.get(attribute.reference)
      if (own !== undefined && own.type !== attribute.type)
        notFollowed(`attribute '${name}' is given a value of another type`)
      return own === undefined ? [] : [[name, own] as const]
    }),
  )
}

/** Names that the subgraphs of a node use. Names of their own are included, which is harmless. */
const captured = new WeakMap<OnnxNode, ReadonlySet<string>>()

/** The nodes that some values depend on, also through subgraphs. */
function neededNodes(nodes: readonly OnnxNode[], wanted: readonly string[]): ReadonlySet<OnnxNode> {
  const makers = new Map<string, OnnxNode>()
  for (const node of nodes) for (const name of node.outputs) if (name !== '') makers.set(name, node)
  const needed = new Set<OnnxNode>()
  const open = [...wanted]
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const node = makers.get(name)
    if (node === undefined || needed.has(node)) continue
    needed.add(node)
    for (const input of node.inputs) open.push(input)
    for (const input of capturedBy(node)) open.push(input)
  }
  return needed
}

function capturedBy(node: OnnxNode): ReadonlySet<string> {
  let names = captured.get(node)
  if (names !== undefined) return names
  const all = new Set<string>()
  for (const { graph } of node.attributes.values()) {
    if (graph === undefined) continue
    for (const name of graph.outputs) all.add(name)
    for (const inner of graph.nodes) for (const name of [...inner.inputs, ...capturedBy(inner)]) all.add(name)
  }
  captured.set(node, (names = all))
  return names
}
