import { interfaceSource, namesInUse, quoted, type SignatureSubject } from './signature.ts'

/** Name of the interface that maps a repository's model names to their interfaces. */
const mapName = 'Models'

/** The source text of a module with the interface of one model. */
export function signatureSource(name: string, file: string, subject: SignatureSubject): string {
  return `${heading('the model')}${moduleSource([interfaceSource(name, file, subject)])}`
}

/** A model of a repository. */
export interface NamedSubject extends SignatureSubject {
  readonly model: string
  /** The file's name in the comment. */
  readonly file: string
}

/** The source text for all models of a repository, with a map from their names to the interfaces. */
export function repositorySource(subjects: readonly NamedSubject[]): string {
  const names = uniqueNames(subjects.map(({ model }) => model))
  const interfaces = subjects.map((subject, index) => interfaceSource(names[index]!, subject.file, subject))
  const entries = subjects.map(({ model }, index) => `  ${quoted(model)}: ${names[index]}\n`)
  const map = `/** By the names of the models: \`engine.model<${mapName}['name']>('name')\`. */\nexport interface ${mapName} {\n${entries.join('')}}\n`
  return `${heading('a model')}${moduleSource([...interfaces, map])}`
}

const heading = (what: string): string =>
  `// Written by \`zerohop types\`; write it anew when ${what} changes.\n`

function moduleSource(parts: readonly string[]): string {
  const body = parts.join('\n')
  const uses = (name: string) => body.includes(`${name}<`)
  // onnxruntime-node is part of every installation, and this library uses its tensors.
  return `${uses('TypedTensor') ? "import type { TypedTensor } from 'onnxruntime-node'\n" : ''}import type { ModelSignature${uses('RawTensor') ? ', RawTensor' : ''} } from 'zerohop'

${body}`
}

/**
 * A name for a model's interface, from its file or, in a repository (`resnet-50/1/model.onnx`), from its
 * folder: `Resnet50`.
 */
export function signatureName(path: string): string {
  const parts = path.split(/[/\\]/).filter((part) => part !== '' && part !== '.' && part !== '..')
  const names = parts.map((part) => part.replace(/\.(?:onnx|ort)$/, ''))
  const telling = names.findLast((part) => part !== 'model' && !/^\d+$/.test(part))
  return interfaceName(telling ?? '')
}

function interfaceName(text: string, taken = namesInUse): string {
  const words = text.match(/[A-Za-z0-9]+/g) ?? []
  const name = words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('')
  return /^[A-Z]/.test(name) && !taken.includes(name) ? name : `Model${name}`
}

/** Adds numbers to names that would otherwise be equal. */
function uniqueNames(models: readonly string[]): string[] {
  const taken = new Set([...namesInUse, mapName])
  return models.map((model) => {
    const plain = interfaceName(model, [...namesInUse, mapName])
    let name = plain
    for (let number = 2; taken.has(name); number++) name = `${plain}_${number}`
    taken.add(name)
    return name
  })
}
