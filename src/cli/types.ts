import { writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { openNativeOrt } from '../executor/native/native-ort.ts'
import { InferenceEngine, type EngineOptions, type ModelMetadata } from '../index.ts'
import { signatureName, signatureSource } from './signature.ts'

/** `zerohop types model.onnx`: writes the TypeScript signature of a model. */
export const types = new Command('types')
  .description("write the TypeScript types of a model's inputs and outputs, for engine.load<M>()")
  .argument('<model>', 'path of an .onnx or .ort file')
  .option('-n, --name <name>', 'name of the interface (default: from the name of the file)', interfaceName)
  .option('-o, --out <file>', 'file to write (default: standard output)')
  .action(async (path: string, { name, out }: { name?: string; out?: string }) => {
    const source = signatureSource(name ?? signatureName(path), basename(path), await readMetadata(path))
    if (out === undefined) process.stdout.write(source)
    else await writeFile(out, source)
  })

async function readMetadata(path: string): Promise<ModelMetadata> {
  const engine = new InferenceEngine(engineOptions())
  try {
    const model = await engine.load(basename(path), { path, instanceGroup: [{ kind: 'cpu' }], warmup: false })
    return model.metadata
  } finally {
    await engine.close()
  }
}

/** The native executor knows more types; with the binding, as no request is made, no better kind of memory is missed. */
function engineOptions(): EngineOptions {
  return openNativeOrt().binding === null ? { executor: 'binding', staging: { kind: 'copied' } } : { executor: 'native' }
}

function interfaceName(name: string): string {
  if (/^[A-Z_$][\w$]*$/.test(name)) return name
  throw new InvalidArgumentError('It has to be the name of an interface, such as ResNet50.')
}
