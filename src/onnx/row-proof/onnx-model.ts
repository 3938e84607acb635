/** A tensor of the file: its elements are kept only of small ones of numbers. */
export interface StoredTensor {
  readonly type: number
  readonly dims: readonly number[]
  readonly elements: readonly number[] | null
}

/** One attribute; what the file has no value of is `undefined`, and so is a list of very many numbers. */
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
  /** The attribute of the function around it that it takes its value from. */
  readonly reference?: string
}

/** A call of an operator or a function. */
export interface OnnxNode {
  readonly name: string
  readonly operator: string
  /** '' for ONNX's own. */
  readonly domain: string
  /** Names of values, '' for one that is left out. */
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly attributes: ReadonlyMap<string, Attribute>
}

/** An input of a graph as it is declared. */
export interface DeclaredInput {
  readonly name: string
  /** Of a tensor; 0 for what is none, or where the file does not say. */
  readonly type: number
}

export interface OnnxGraph {
  readonly nodes: readonly OnnxNode[]
  readonly initializers: ReadonlyMap<string, StoredTensor>
  readonly inputs: readonly DeclaredInput[]
  readonly outputs: readonly string[]
  /** Lengths that the file says values have, by name; `null` for one that it leaves open. ONNX Runtime takes its word for it. */
  readonly lengths: ReadonlyMap<string, readonly (readonly (number | null)[])[]>
}

/** A function that the model brings along. */
export interface OnnxFunction {
  readonly name: string
  readonly domain: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly nodes: readonly OnnxNode[]
  /** Versions of the operators that it calls, by domain. */
  readonly opsets: ReadonlyMap<string, number>
  /** Attributes that have a value where a call gives none. */
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
