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
  /**
   * From how many bytes an output of a single request is best taken as it is given, and moved to the caller, rather than
   * written to the slot and copied from there.
   */
  readonly movesFromBytes: number
  /** What to do about types that it does not carry, for a message: what another one carries; else nothing. */
  otherwise(types: readonly string[]): string
}

/** ONNX Runtime's C API, by the addon. */
export const libraryCarrier: Carrier = {
  what: 'value that can be carried to ONNX Runtime',
  carries: (type) => valueTypeOf(type) !== null,
  carriesNul: true,
  movesFromBytes: Infinity, // it writes to the slot itself
  otherwise: () => '',
}

/** onnxruntime-node: its binding knows the element types of JavaScript's arrays, and aborts the process over some others. */
export const bindingCarrier: Carrier = {
  what: 'tensor of a type that onnxruntime-node can carry',
  carries: (type) => isElementType(type) && !isRawType(type),
  carriesNul: false,
  // It has every output in memory of its own: measured, moving halves what 588 KB cost over a plain run. One of several
  // requests is copied to the slot: moved as well, it took no less (4 rows of 588 KB).
  movesFromBytes: 65_536,
  otherwise: (types) =>
    types.every(libraryCarrier.carries) ? "Use executor: 'native', which carries it. Else: " : '',
}

/** JavaScript on a thread of its own: elements that it has arrays for. */
export const functionCarrier: Carrier = {
  what: 'tensor of a type that JavaScript has an array for',
  carries: (type) => isElementType(type) && !isRawType(type),
  carriesNul: true,
  movesFromBytes: 65_536, // as with the binding: what was given is copied once either way, and moved or copied again
  otherwise: () => '',
}
