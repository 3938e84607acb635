import type { ExternalFile } from './external-data.ts'
import type { DeclaredValue } from './value-info.ts'

/** How many tensors there are, and what they hold. */
export interface TensorTotals {
  readonly tensors: number
  /** Numbers (or strings) that they have. */
  readonly elements: number
  /** What these take, wherever they lie. */
  readonly byteLength: number
}

/** What a model file says of itself. */
export interface OnnxFile {
  /** Absolute. */
  readonly path: string
  /** Of the file, without those beside it. */
  readonly byteLength: number
  /** Version of the file format. */
  readonly irVersion: number
  /** Versions of the sets of operators, by domain; `ai.onnx` is ONNX's own. */
  readonly opsets: Readonly<Record<string, number>>
  readonly producer: { readonly name: string; readonly version: string }
  /** Of the model itself, such as `com.example`. */
  readonly domain: string
  readonly modelVersion: number
  /** Its beginning, where it is longer than 64 KiB; so it is with the values of `metadata`. */
  readonly description: string
  readonly metadata: Readonly<Record<string, string>>
  readonly graphName: string
  /** What a request has to give. */
  readonly inputs: readonly DeclaredValue[]
  readonly outputs: readonly DeclaredValue[]
  /** Inputs that are initializers as well: they have a value, and requests give another only where `optionalInputs` or `inputs` name them. */
  readonly initializedInputs: readonly DeclaredValue[]
  /** How often each operator is called, those of branches, loops and functions included; with its domain where that is not ONNX's own. */
  readonly operators: Readonly<Record<string, number>>
  /** Functions that the model brings along, called like operators. */
  readonly functions: readonly string[]
  /** Initializers: what was learnt, as a rule. */
  readonly parameters: TensorTotals
  /** Tensors that are attributes of operators, as of `Constant`. */
  readonly constants: TensorTotals
  /** Files beside the model in which tensors lie. */
  readonly externalFiles: readonly ExternalFile[]
}
