import { UnreadableGraph } from '../message-reader.ts'

/** A tensor of the file. Elements are kept only for small numeric tensors. */
export interface StoredTensor {
  readonly type: number
  readonly dims: readonly number[]
  readonly elements: readonly number[] | null
}

/** One attribute. Values that the file does not set are `undefined`; so are very long lists of numbers. */
export interface Attribute {
  /** `AttributeProto.AttributeType`. */
  readonly type: number
  readonly i?: number
  readonly f?: number
  readonly s?: string
  readonly tensor?: StoredTensor
  readonly graph?: OnnxGraph
  readonly ints?: readonly number[] | undefined
  readonly floats?: readonly number[] | undefined
  readonly strings?: readonly string[] | undefined
  /** The attribute of the enclosing function that provides its value. */
  readonly reference?: string
}

/** A call of an operator or a function. */
export interface OnnxNode {
  readonly name: string
  readonly operator: string
  /** '' for ONNX's own domain. */
  readonly domain: string
  /** Names of values; '' for an omitted one. */
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly attributes: ReadonlyMap<string, Attribute>
}

/** A graph input as declared. */
export interface DeclaredInput {
  readonly name: string
  /** Type of a tensor; 0 for other values, and if the file does not declare it. */
  readonly type: number
}

export interface OnnxGraph {
  readonly nodes: readonly OnnxNode[]
  readonly initializers: ReadonlyMap<string, StoredTensor>
  readonly inputs: readonly DeclaredInput[]
  readonly outputs: readonly string[]
  /** Lengths that the file declares for values, by name; `null` for an open one. ONNX Runtime trusts them. */
  readonly lengths: ReadonlyMap<string, readonly (readonly (number | null)[])[]>
}

/** A function that the model defines. */
export interface OnnxFunction {
  readonly name: string
  readonly domain: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly nodes: readonly OnnxNode[]
  /** Versions of the operator sets that it uses, by domain. */
  readonly opsets: ReadonlyMap<string, number>
  /** Default values of attributes that a call may omit. */
  readonly defaults: ReadonlyMap<string, Attribute>
}

/** A model as its file describes it. */
export interface OnnxModel {
  readonly opsets: ReadonlyMap<string, number>
  readonly graph: OnnxGraph
  /** By domain and name: `domain:name`. */
  readonly functions: ReadonlyMap<string, OnnxFunction>
}

export const functionKey = (domain: string, name: string): string => `${domain}:${name}`

/** The operator domain of which ONNX Runtime has a single version, whether a model imports it or not. */
const ownDomain = 'com.microsoft'
/** Prefix that ONNX Runtime gives to the values of a function when it inlines a call. */
const inlined = '_inlfunc'

/** The meaning of names, from the outermost graph inwards. */
interface Scopes {
  readonly names: readonly ReadonlySet<string>[]
  readonly opsets: ReadonlyMap<string, number>
  readonly hasFunctions: boolean
}

/**
 * Throws if a name may stand for another value, or an operator may have another version, than the file says.
 * Every value must be made only once, and every operator needs a version. An input or initializer of a
 * subgraph hides an outer value of the same name, as in ONNX Runtime.
 *
 * @throws UnreadableGraph
 */
export function checkScopes({ graph, opsets, functions }: OnnxModel): void {
  const inputs = new Set(graph.inputs.map(({ name }) => name))
  // An input may have an initializer for requests that omit it.
  const initializers = [...graph.initializers.keys()].filter((name) => !inputs.has(name))
  checkScope([...graph.inputs.map(({ name }) => name), ...initializers], graph.nodes, {
    names: [],
    opsets,
    hasFunctions: functions.size > 0,
  })
  for (const { inputs: own, nodes, opsets: ofFunction, name, domain } of functions.values()) {
    for (const each of ofFunction.keys())
      if (each !== ownDomain && !opsets.has(each))
        throw new UnreadableGraph(
          `function '${domain}:${name}' has operators of '${each}', but the model declares no version of them`,
        )
    checkScope(own, nodes, { names: [], opsets: ofFunction, hasFunctions: false })
  }
}

/** @param given names of inputs and initializers. */
function checkScope(
  given: readonly string[],
  nodes: readonly OnnxNode[],
  { names, opsets, hasFunctions }: Scopes,
): void {
  const own = new Set<string>()
  const scopes: Scopes = { names: [...names, own], opsets, hasFunctions }
  const add = (name: string, taken: Scopes['names']) => {
    if (name === '') return
    if (taken.some((scope) => scope.has(name))) throw new UnreadableGraph(`value '${name}' is defined twice`)
    if (hasFunctions && name.startsWith(inlined))
      throw new UnreadableGraph(`value '${name}' could be mistaken for a value of a function`)
    own.add(name)
  }
  for (const name of given) add(name, [own])
  for (const { outputs } of nodes) for (const name of outputs) add(name, scopes.names)
  for (const { operator, domain, attributes } of nodes) {
    if (domain !== ownDomain && !opsets.has(domain))
      throw new UnreadableGraph(
        `it has operators of '${domain}', such as ${operator}, but declares no version of them`,
      )
    for (const { graph } of attributes.values())
      if (graph !== undefined)
        checkScope(
          [...graph.inputs.map(({ name }) => name), ...graph.initializers.keys()],
          graph.nodes,
          scopes,
        )
  }
}
