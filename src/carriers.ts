import { isElementType, isRawType } from './tensor.ts'
import { valueTypeOf } from './value-type.ts'

/** Who carries inputs and outputs to ONNX Runtime and back: what of a model can be served is up to it. */
export interface Carrier {
  /** What it carries, for a message. */
  readonly what: string
  /** Whether it carries values of a type, by ONNX Runtime's name of it. */
  carries(type: string): boolean
  /** Whether strings keep NUL characters. */
  readonly carriesNul: boolean
  /** What to do about types that it does not carry, for a message: what another one carries; else nothing. */
  otherwise(types: readonly string[]): string
}

/** ONNX Runtime's C API, by the addon. */
export const libraryCarrier: Carrier = {
  what: 'value that can be carried to ONNX Runtime',
  carries: (type) => valueTypeOf(type) !== null,
  carriesNul: true,
  otherwise: () => '',
}

/** onnxruntime-node: its binding knows the element types of JavaScript's arrays, and aborts the process over some others. */
export const bindingCarrier: Carrier = {
  what: 'tensor of a type that onnxruntime-node can carry',
  carries: (type) => isElementType(type) && !isRawType(type),
  carriesNul: false,
  otherwise: (types) => (types.every(libraryCarrier.carries) ? "Use executor: 'native', which carries it. Else: " : ''),
}
