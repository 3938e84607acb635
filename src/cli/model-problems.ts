import { listNames } from '../errors.ts'
import type { OnnxFile } from '../onnx/read-onnx-file.ts'

/** Operator domains that ONNX Runtime includes, besides ONNX's own. */
const knownDomains = new Set([
  'ai.onnx.ml', 'ai.onnx.training', 'ai.onnx.preview.training', 'com.microsoft', 'com.microsoft.experimental', 'com.microsoft.nchwc',
  'com.microsoft.dml', 'com.ms.internal.nhwc', 'org.pytorch.aten',
]) // prettier-ignore

/** Problems in a model's file that prevent loading. */
export function problemsOf({ operators, functions, externalFiles, outputs }: OnnxFile): string[] {
  const problems = externalFiles.flatMap(({ location, problem }) =>
    problem === null ? [] : [`external data '${location}': ${problem}`],
  )
  const own = new Set(functions)
  const unknown = Object.keys(operators).filter(
    (name) => !knownDomains.has(domainOf(name)) && domainOf(name) !== '' && !own.has(name),
  )
  if (unknown.length > 0) problems.push(`operators that ONNX Runtime does not have: ${listNames(unknown)}`)
  if (outputs.length === 0) problems.push('it has no outputs')
  return problems
}

const domainOf = (operator: string): string => operator.slice(0, Math.max(0, operator.lastIndexOf(':')))
