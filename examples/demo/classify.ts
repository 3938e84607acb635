import type { Tensor } from 'onnxruntime-common'
import { InferenceError } from 'zerohop'
import { shownValue, type ValueInfo } from './image-input.ts'
import { UsageError } from './usage-error.ts'

/** What became of one file: a class, or the reason why there is none. */
export type Outcome = { file: string; label: string; probability: number } | { file: string; error: string }

/** The part of a loaded model that is needed here. */
export interface Classifier {
  metadata: { inputs: readonly ValueInfo[]; outputs: readonly ValueInfo[] }
  infer(feeds: Record<string, Tensor>): Promise<Record<string, Tensor>>
}

/** One job's work on one file: decode, infer, take the likeliest class. */
export function classifierOf(
  model: Classifier,
  decode: (file: string) => Promise<Tensor>,
  labels: readonly string[] | undefined,
): (file: string) => Promise<Outcome> {
  const input = model.metadata.inputs[0]!.name
  const output = outputOf(model.metadata.outputs)
  return async (file) => {
    const outputs = await model.infer({ [input]: await decode(file) })
    return { file, ...likeliest(outputs[output]!.data as Float32Array | Float64Array, labels) }
  }
}

/** The name of the output that has a number for each class. */
function outputOf(outputs: readonly ValueInfo[]): string {
  const numbers = outputs.filter(({ type }) => type === 'float32' || type === 'float64')
  if (numbers.length === 0)
    throw new UsageError('the model has no output of float32 or float64, thus no probabilities')
  const ofClasses = numbers.find(
    ({ shape }) => shape.slice(1).filter((dim) => typeof dim === 'number' && dim > 1).length <= 1,
  )
  if (ofClasses !== undefined) return ofClasses.name
  const shown = numbers.map((value) => shownValue('output', value)).join(', ')
  throw new UsageError(
    `the model is no image classifier: none of its outputs has one number for each class (${shown})`,
  )
}

/**
 * Runs `classify` on every file through `jobs` concurrent jobs, each of which takes the next file when it is done with
 * one. A file that is no image does not stop the others; any other failure does.
 */
export async function runJobs(
  files: readonly string[],
  jobs: number,
  classify: (file: string) => Promise<Outcome>,
  onDone: () => void,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  let next = 0
  const job = async (): Promise<void> => {
    while (next < files.length) {
      const index = next++
      const file = files[index]!
      try {
        outcomes[index] = await classify(file)
      } catch (error) {
        if (!(error instanceof InferenceError && error.code === 'ERR_IMAGE_DECODE')) {
          next = files.length
          throw error
        }
        outcomes[index] = { file, error: `${error.code}: ${reasonOf(error)}` }
      }
      onDone()
    }
  }
  await Promise.all(Array.from({ length: Math.min(jobs, files.length) }, job))
  return outcomes
}

/** The file is named beside it, so what sharp or the file system said is enough. */
function reasonOf(error: InferenceError): string {
  return error.cause instanceof Error ? error.cause.message.replace(/\s+/g, ' ').trim() : error.message
}

/** The class with the highest value; a model that gives scores instead of probabilities gets the softmax it lacks. */
export function likeliest(
  values: ArrayLike<number>,
  labels?: readonly string[],
): { label: string; probability: number } {
  if (labels !== undefined && labels.length !== values.length) {
    throw new UsageError(
      `the model tells ${values.length} classes apart, and the labels file has ${labels.length} lines`,
    )
  }
  const all = Array.from(values)
  const highest = Math.max(...all)
  const best = all.indexOf(highest)
  const areProbabilities = Math.min(...all) >= 0 && Math.abs(sum(all) - 1) < 1e-2
  const probability = areProbabilities ? highest : 1 / sum(all.map((value) => Math.exp(value - highest)))
  return { label: labels?.[best] ?? `class ${best}`, probability }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
