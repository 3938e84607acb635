import { readFileSync } from 'node:fs'

/**
 * What the command line and the environment say, with defaults.
 *
 * @param {readonly string[]} args
 * @param {Readonly<Record<string, string | undefined>>} environment
 */
export function readSettings(args, environment) {
  const example = 'MODEL=model.onnx LABELS=labels.txt npm start -- pictures results.csv'
  const [folder, results] = args
  if (args.length !== 2) throw new Error(`expected a folder and a file for its results, received ${args.length} arguments: ${example}`)
  if (environment['MODEL'] === undefined) throw new Error(`MODEL: expected the path of an ONNX image classifier: ${example}`)
  return {
    folder,
    results,
    model: environment['MODEL'],
    /** Names of the classes, one a line; without them classes are shown by number. */
    labels: environment['LABELS'] === undefined ? undefined : readLabels(environment['LABELS']),
    /** How pixels become what the model takes: options of `decodeImage`, as JSON. */
    image: JSON.parse(environment['IMAGE'] ?? '{}'),
  }
}

/** Lists for ImageNet begin each line with the number that WordNet has for it. */
function readLabels(path) {
  return readFileSync(path, 'utf8').trimEnd().split(/\r?\n/).map((line) => line.replace(/^n\d{8} /, ''))
}
