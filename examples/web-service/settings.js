import { readFileSync } from 'node:fs'

/**
 * What the environment says, with defaults.
 *
 * @param {Readonly<Record<string, string | undefined>>} environment
 */
export function readSettings(environment) {
  const number = (name, otherwise, least = 1) => {
    const value = Number(environment[name] ?? otherwise)
    if (!Number.isSafeInteger(value) || value < least)
      throw new Error(`${name}: expected a whole number, ${least} or more, received '${environment[name]}'`)
    return value
  }
  if (environment['MODEL'] === undefined)
    throw new Error(
      'MODEL: expected the path of an ONNX image classifier. Set it: MODEL=model.onnx LABELS=labels.txt npm start',
    )
  return {
    host: environment['HOST'] ?? '127.0.0.1',
    port: number('PORT', 3000, 0),
    model: environment['MODEL'],
    /** Names of the classes, one a line; without them classes are shown by number. */
    labels: environment['LABELS'] === undefined ? undefined : readLabels(environment['LABELS']),
    /** How pixels become what the model takes: options of `decodeImage`, as JSON. */
    image: readImage(environment['IMAGE'] ?? '{}'),
    /** Largest file. */
    maxBytes: number('MAX_BYTES', 10 * 2 ** 20),
    /** Files that come or wait may take so much memory together. */
    maxHeldBytes: number('MAX_HELD_BYTES', 512 * 2 ** 20),
    /** How long a file may take to come. */
    uploadMs: number('UPLOAD_MS', 60_000),
    /** Who is believed that says in `X-Forwarded-For` whom it asks for: addresses of proxies, with commas between. */
    proxies: environment['PROXIES'] ?? false,
    /** Files a minute from one address. */
    maxPerMinute: number('MAX_PER_MINUTE', 600),
    /** Files that may wait for the model; more are told to come back. */
    maxWaiting: number('MAX_WAITING', 256),
    /** How long a file may take to be answered. */
    timeoutMs: number('TIMEOUT_MS', 10_000),
  }
}

function readImage(text) {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`IMAGE: expected options of decodeImage as JSON, received '${text}': ${error.message}`)
  }
}

/** Lists for ImageNet begin each line with the number that WordNet has for it. */
function readLabels(path) {
  return readFileSync(path, 'utf8')
    .trimEnd()
    .split(/\r?\n/)
    .map((line) => line.replace(/^n\d{8} /, ''))
}
