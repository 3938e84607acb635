import { readFileSync } from 'node:fs'

/**
 * What the environment says, with defaults.
 *
 * @param {Readonly<Record<string, string | undefined>>} environment
 */
export function readSettings(environment) {
  const number = (name, otherwise) => {
    const value = Number(environment[name] ?? otherwise)
    if (!Number.isFinite(value) || value < 0) throw new Error(`${name}: expected a number of at least 0, received ${environment[name]}`)
    return value
  }
  if (environment['MODEL'] === undefined) throw new Error('MODEL: expected the path of an ONNX image classifier. Set it: MODEL=model.onnx LABELS=labels.txt npm start')
  return {
    host: environment['HOST'] ?? '127.0.0.1',
    port: number('PORT', 3000),
    model: environment['MODEL'],
    /** Names of the classes, one a line; without them classes are shown by number. */
    labels: environment['LABELS'] === undefined ? undefined : readLabels(environment['LABELS']),
    /** How pixels become what the model takes: options of `decodeImage`, as JSON. */
    image: JSON.parse(environment['IMAGE'] ?? '{}'),
    /** Largest file. */
    maxBytes: number('MAX_BYTES', 10 * 2 ** 20),
    /** Files a minute from one address. */
    maxPerMinute: number('MAX_PER_MINUTE', 600),
    /** Files that may wait for the model; more are told to come back. */
    maxWaiting: number('MAX_WAITING', 256),
    /** How long a file may take to be answered. */
    timeoutMs: number('TIMEOUT_MS', 10_000),
  }
}

/** Lists for ImageNet begin each line with the number that WordNet has for it. */
function readLabels(path) {
  return readFileSync(path, 'utf8').trimEnd().split(/\r?\n/).map((line) => line.replace(/^n\d{8} /, ''))
}
