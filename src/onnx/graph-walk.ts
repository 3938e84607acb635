import { NeededFiles, TensorCount } from './tensor-count.ts'
import { declaredValue, type DeclaredValue } from './value-info.ts'
import { MalformedFile, type Parts, type Span, type WireReader } from './wire-reader.ts'

/** Inputs, outputs, initializers, functions and kinds of operators that are remembered of a file, of each. */
const mostRemembered = 1_000_000

/** ONNX's own domain of operators, by its two names. */
export const onnxDomain = 'ai.onnx'

/** Goes through graphs, their branches and bodies, and functions, and counts what is in them. */
export class GraphWalk {
  readonly inputs: DeclaredValue[] = []
  readonly outputs: DeclaredValue[] = []
  readonly initializers = new Set<string>()
  readonly operators = new Map<string, number>()
  readonly functions: string[] = []
  readonly files = new NeededFiles()
  readonly parameters = new TensorCount(this.files)
  readonly constants = new TensorCount(this.files)
  readonly #reader: WireReader

  constructor(reader: WireReader) {
    this.#reader = reader
  }

  /** The model's own graph; its name. */
  main(span: Span): string {
    const reader = this.#reader
    const value = (values: DeclaredValue[]) => (part: Span) => {
      values.push(declaredValue(reader.read('ValueInfoProto', part)))
      checkCount(values.length, 'inputs or outputs')
    }
    const { name } = reader.read('GraphProto', span, {
      ...this.#content((initializer) => {
        this.initializers.add(initializer)
        checkCount(this.initializers.size, 'initializers')
      }),
      11: value(this.inputs),
      12: value(this.outputs),
    })
    return name
  }

  /** A function, which is called like an operator. */
  function(span: Span): void {
    const { name, domain } = this.#reader.read('FunctionProto', span, { 7: (node) => this.#node(node) })
    this.functions.push(operatorName(name, domain))
    checkCount(this.functions.length, 'functions')
  }

  /** Nodes, initializers and sparse initializers of a graph. */
  #content(initializer: (name: string) => void): Parts {
    const tensor = (part: Span) => initializer(this.parameters.add(this.#reader, part))
    return {
      1: (node) => this.#node(node),
      5: tensor,
      15: (sparse) => void this.#reader.read('Container', sparse, { 1: tensor }), // its values; their places are no parameters
    }
  }

  #node(span: Span): void {
    const { opType, domain } = this.#reader.read('NodeProto', span, {
      5: (attribute) => this.#attribute(attribute),
    })
    const name = operatorName(opType, domain)
    this.operators.set(name, (this.operators.get(name) ?? 0) + 1)
    checkCount(this.operators.size, 'operators')
  }

  /** An attribute has one value: one that is a list of numbers may have millions, and is left at its first. */
  #attribute(span: Span): void {
    const tensor = (part: Span) => void this.constants.add(this.#reader, part)
    const graph = (part: Span) =>
      void this.#reader.read(
        'Container',
        part,
        this.#content(() => {}),
      )
    const sparse = (part: Span) => void this.#reader.read('Container', part, { 1: tensor })
    const plain = 'last'
    this.#reader.read('Container', span, {
      2: plain, 3: plain, 4: plain, 7: plain, 8: plain, 9: plain,
      5: tensor, 6: graph, 10: tensor, 11: graph, 22: sparse, 23: sparse,
    }) // prettier-ignore
  }
}

function operatorName(name: string, domain: string): string {
  return domain === '' || domain === onnxDomain ? name : `${domain}:${name}`
}

function checkCount(count: number, what: string): void {
  if (count > mostRemembered) throw new MalformedFile(`it has more than ${mostRemembered} ${what}`)
}
