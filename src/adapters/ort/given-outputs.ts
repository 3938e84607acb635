import type { OnnxValue, SessionHandler, Tensor } from 'onnxruntime-common'
import { invalidArgument } from '../../errors.ts'

/**
 * Puts answers into the tensors that a caller has made for them (`run(feeds, { y: tensor })`), and answers with those; outputs for
 * which none was made stay as they are.
 *
 * @param fetches by output: the tensor, or `null` for none.
 * @throws InferenceError `ERR_INVALID_ARG` for a tensor of another type or shape.
 */
export function intoGiven(
  model: string,
  answers: Readonly<Record<string, OnnxValue>>,
  fetches: SessionHandler.FetchesType,
): SessionHandler.ReturnType {
  return Object.fromEntries(
    Object.entries(answers).map(([name, answer]) => [name, fill(model, name, answer, fetches[name] ?? null)]),
  )
}

function fill(model: string, name: string, answer: Tensor, given: OnnxValue | null): Tensor {
  if (given === null) return answer
  const shown = ({ type, dims }: Tensor) => `${type}[${dims.join(', ')}]`
  if (shown(given) !== shown(answer))
    throw invalidArgument(`fetches.${name}`, `a tensor ${shown(answer)}`, shown(given), { model })
  const { data } = given
  if (Array.isArray(data)) for (const [index, text] of (answer.data as string[]).entries()) data[index] = text
  else (data as Float32Array).set(answer.data as Float32Array)
  return given
}
