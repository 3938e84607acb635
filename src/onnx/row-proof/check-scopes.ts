import { UnreadableGraph } from './message-reader.ts'
import type { OnnxModel, OnnxNode } from './onnx-model.ts'

/** Of which ONNX Runtime has one version, whether a model imports it or not. */
const ownDomain = 'com.microsoft'
/** How ONNX Runtime begins the names of a function's values where it puts it in the place of a call. */
const inlined = '_inlfunc'

/** What names stand for, from the outermost graph on. */
interface Scopes {
  readonly names: readonly ReadonlySet<string>[]
  readonly opsets: ReadonlyMap<string, number>
  readonly hasFunctions: boolean
}

/**
 * Throws where a name of a model may stand for another value, or an operator be of another version, than the file says: no value may
 * be made twice, and each operator needs a version. An input or initializer of a subgraph hides what is called like it around that,
 * in ONNX Runtime as well.
 *
 * @throws UnreadableGraph
 */
export function checkScopes({ graph, opsets, functions }: OnnxModel): void {
  const inputs = new Set(graph.inputs.map(({ name }) => name))
  // An input may have an initializer for requests that leave it out.
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
          `function '${domain}:${name}' has operators of '${each}', of which the model says no version`,
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
    if (taken.some((scope) => scope.has(name))) throw new UnreadableGraph(`value '${name}' is made twice`)
    if (hasFunctions && name.startsWith(inlined))
      throw new UnreadableGraph(`value '${name}' may be taken for one of a function`)
    own.add(name)
  }
  for (const name of given) add(name, [own])
  for (const { outputs } of nodes) for (const name of outputs) add(name, scopes.names)
  for (const { operator, domain, attributes } of nodes) {
    if (domain !== ownDomain && !opsets.has(domain))
      throw new UnreadableGraph(
        `it has operators of '${domain}', such as ${operator}, and says no version of them`,
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
