import { jsonPieces } from '../../base/bounded-json.ts'
import { isPlainObject } from '../../options/plain-options.ts'
import { InferenceError, invalidArgument } from '../../errors.ts'
import { doAll } from '../../base/slices.ts'
import { fieldType, isEnumeration, isMessage, type MessageName } from './model-config-schema.ts'

const mostValues = 2 ** 16

/**
 * A configuration in JSON, as clients of Triton send it with `load`, in the words of `config.pbtxt`: so it is read, checked and
 * refused as that is. Names may be in snake case or in camel case; whole numbers may be in quotes.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` for what is no JSON of an object.
 */
export function textOfJson(model: string, json: string): string {
  const wrong = (received: unknown): InferenceError =>
    invalidArgument('config', 'a JSON object', received, { code: 'ERR_MODEL_CONFIG', model })
  let config: unknown
  try {
    config = doAll(jsonPieces(Buffer.from(json), 'config', { mostValues }))
  } catch (error) {
    throw wrong((error as Error).message)
  }
  if (!isPlainObject(config)) throw wrong(config)
  return fieldsText('ModelConfig', config, '\n')
}

function fieldsText(message: MessageName, fields: object, between: string): string {
  return Object.entries(fields)
    .flatMap(([name, value]) => (value === null ? [] : fieldText(message, name, value)))
    .join(between)
}

/** What the schema has not is written as it is, and refused by whoever reads it. */
function fieldText(message: MessageName, given: string, value: unknown): string {
  const snake = given.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  const name = fieldType(message, snake) === null ? given : snake
  if (!/^[a-z_]\w*$/i.test(name))
    throw invalidArgument('config', `fields of ${message}`, given, { code: 'ERR_MODEL_CONFIG' })
  const type = fieldType(message, name)
  if (type === null) return `${name}: 0`
  const { key, value: one } = type
  if (key !== null && isPlainObject(value))
    return `${name}: [${Object.entries(value)
      .map(([each, of]) => `{ key: ${valueText(key, each)} value: ${valueText(one, of)} }`)
      .join()}]`
  return Array.isArray(value)
    ? `${name}: [${value.map((each) => valueText(one, each)).join()}]`
    : `${name}: ${valueText(one, value)}`
}

function valueText(type: string, value: unknown): string {
  if (isPlainObject(value)) return `{ ${isMessage(type) ? fieldsText(type, value, ' ') : ''} }`
  if (typeof value === 'boolean' || typeof value === 'number') return String(value)
  if (typeof value !== 'string') return '{ }'
  return (isEnumeration(type) && /^[A-Z]\w*$/.test(value)) || (type !== 'string' && /^-?\d+$/.test(value))
    ? value
    : JSON.stringify(value)
}
