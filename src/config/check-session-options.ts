import { invalidArgument, type InferenceError } from '../errors.ts'

/**
 * Checks the options that are handed through to ONNX Runtime for what it would refuse late or in obscure words: they
 * travel to another thread, and every value in `extra` has to be text.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkSessionOptions(model: string, options: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(options)) {
    if (name === 'executionProviders') throw wrong(model, name, "to be given beside sessionOptions, as the model's executionProviders", value)
    if (name === 'extra') checkExtra(model, name, value)
    else if (!canBeSent(value)) throw wrong(model, name, 'a value that can be sent to a worker thread', value)
  }
}

/**
 * Refuses options by which ONNX Runtime would go on reading the bytes of a model once it is open, when they are gone.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function checkOptionsForBytes(model: string, { extra }: Readonly<Record<string, unknown>>): void {
  const option = /use_ort_model_bytes_\w+/.exec(JSON.stringify(extra) ?? '')?.[0]
  if (option !== undefined) throw wrong(model, `extra.session.${option}`, 'to be left out for a model that is given as bytes', extra)
}

/** Options in groups: `{ session: { intra_op: { allow_spinning: '0' } } }`. */
function checkExtra(model: string, name: string, value: unknown): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(model, name, 'an object of options', value)
  for (const [key, item] of Object.entries(value)) {
    if (typeof item === 'object' && item !== null) checkExtra(model, `${name}.${key}`, item)
    else if (typeof item !== 'string') throw wrong(model, `${name}.${key}`, 'a string, as all values in extra', item)
  }
}

function canBeSent(value: unknown): boolean {
  try {
    structuredClone(value)
    return true
  } catch {
    return false
  }
}

function wrong(model: string, name: string, expected: string, received: unknown): InferenceError {
  return invalidArgument(`sessionOptions.${name}`, expected, received, { code: 'ERR_MODEL_CONFIG', model })
}
