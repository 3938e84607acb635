import { readFileSync } from 'node:fs'

/**
 * What the command line and the environment say, with defaults; what is set to nothing is not set.
 *
 * @param {readonly string[]} args
 * @param {Readonly<Record<string, string | undefined>>} environment
 */
export function readSettings(args, environment) {
  const example = 'MODEL=model.onnx LABELS=labels.txt npm start -- pictures results.csv'
  const [folder, results] = args
  if (args.length !== 2)
    throw new Error(
      `expected a folder and a file for its results, received ${args.length} arguments: ${example}`,
    )
  if (!environment['MODEL'])
    throw new Error(`MODEL: expected the path of an ONNX image classifier: ${example}`)
  return {
    folder,
    results,
    model: environment['MODEL'],
    /** Names of the classes, one a line; without them classes are shown by number. */
    labels: environment['LABELS'] ? readLabels(environment['LABELS']) : undefined,
    /** How pixels become what the model takes: options of `decodeImage`, as JSON. */
    image: readJson('IMAGE', environment['IMAGE'] || '{}'),
  }
}

/** Lists for ImageNet begin each line with the number that WordNet has for it. */
function readLabels(path) {
  return readFileSync(path, 'utf8')
    .trimEnd()
    .split(/\r?\n/)
    .map((line) => line.replace(/^n\d{8} /, ''))
}

function readJson(name, text) {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Error(`${name}: expected JSON, as {"channels":"bgr"}, received ${text}`, { cause })
  }
}
