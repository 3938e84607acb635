import type { Tensor, TypedTensor } from 'onnxruntime-common'
import type { ElementType, RawTensor, TensorData, TensorType } from '../tensor/tensor.ts'
import type { MapEntry, OutputValue } from '../tensor/values.ts'
import type { FunctionFeed } from './function-module.ts'
import type { ModelConfig } from './model-config.ts'
import type { SequenceConfig } from './sequence-config.ts'
import type { InputConfig, OutputConfig } from './tensor-config.ts'

/**
 * An input value: a tensor, or the bare data of exactly one row (or of the whole unbatched input). For strings, an
 * array or a single string.
 */
export type FeedValue = Tensor | RawTensor | TensorData | string | readonly string[] | StructuredFeed

/**
 * An input that is not a tensor: an array for a sequence, an object for a map (or a `Map` for integer keys), `null` for
 * an optional that is empty.
 */
export type StructuredFeed =
  | readonly FeedValue[]
  | ReadonlyMap<bigint | number, MapEntry>
  | { readonly [key: string]: MapEntry }
  | null

/** Inputs by name, as for `InferenceSession.run`; dims include the batch dimension. */
export type Feeds = Readonly<Record<string, FeedValue>>

/** Outputs by name. Each holds the request's own rows and belongs to the caller. */
export type AnyOutputs = Record<string, OutputValue>

/** Outputs of a model without a signature; see {@link AnySignature}. */
export type Outputs = Record<string, Tensor>

/** Names and types of a model's inputs and outputs, for `engine.load<M>()`. */
export interface ModelSignature {
  /** Inputs by name. */
  inputs: Record<string, FeedValue>
  /** Outputs by name. */
  outputs: AnyOutputs
}

/**
 * The signature of a model whose inputs and outputs are known only at run time. TypeScript assumes that each output is
 * a `Tensor`, as nearly all are; for other kinds give the model a signature of its own (`zerohop types` writes it).
 */
export interface AnySignature extends ModelSignature {
  /** Inputs by name. */
  inputs: Record<string, FeedValue>
  /** Outputs by name. */
  outputs: Outputs
}

/** Names of a model's outputs. */
export type OutputName<M extends ModelSignature> = keyof M['outputs'] & string

/**
 * The result type of a request: the outputs it names, or all if it names none (`never`). It must ask no more of `M`
 * than this, or a `Model<M>` is not a `Model`.
 */
export type WantedOutputs<M extends ModelSignature, Name extends OutputName<M>> = [Name] extends [never]
  ? M['outputs']
  : Pick<M['outputs'], Name>

/**
 * A configuration that keeps literal names and types for the compiler. Unknown options of an entry are still errors.
 */
export type LiteralConfig<
  I extends readonly InputConfig[],
  O extends readonly OutputConfig[],
  S extends SequenceConfig,
  Left extends readonly string[],
> = ModelConfig & {
  readonly inputs?: I & KnownOptions<I, InputConfig>
  readonly outputs?: O & KnownOptions<O, OutputConfig>
  readonly sequence?: S
  readonly optionalInputs?: Left
}

/** Nothing if all options are known: a repeated constraint would keep the compiler from choosing the overload. */
type KnownOptions<Entries extends readonly object[], Known> = {
  readonly [Index in keyof Entries]: Never<
    Exclude<keyof Entries[Index], keyof Known> | Misspelt<Entries[Index], Known>
  >
}
/** Options, such as `image`, with an unknown option inside. */
type Misspelt<Entry, Known> = {
  [Option in keyof Entry & keyof Known]: Entry[Option] extends object
    ? Entry[Option] extends readonly unknown[]
      ? never
      : [Exclude<keyof Entry[Option], keyof NonNullable<Known[Option]>>] extends [never]
        ? never
        : Option
    : never
}[keyof Entry & keyof Known]
type Never<Option extends PropertyKey> = [Option] extends [never]
  ? unknown
  : { readonly [name in Option]: never }

/**
 * The signature from the literal `inputs` and `outputs` of a configuration, by name, with types where given. A list
 * that is left out, or has no literal types, gives no names: they are known only at run time.
 */
export interface ConfiguredSignature<
  I extends readonly InputConfig[],
  O extends readonly OutputConfig[],
  S extends SequenceConfig,
  Left extends readonly string[],
> extends ModelSignature {
  inputs: string extends I[number]['name'] | Optional<S, Left>
    ? AnySignature['inputs']
    : InputsOf<I[number], Optional<S, Left>>
  outputs: string extends O[number]['name'] | KeptOutput<S>
    ? AnySignature['outputs']
    : OutputsOf<O[number], KeptOutput<S>>
}

/** As {@link ConfiguredSignature}, or the signature of any model if the configuration has no literal list. */
export type SignatureOf<
  I extends readonly InputConfig[],
  O extends readonly OutputConfig[],
  S extends SequenceConfig,
  Left extends readonly string[],
> = string extends I[number]['name'] & O[number]['name'] ? AnySignature : ConfiguredSignature<I, O, S, Left>

/** Inputs that requests may leave out: a sequence fills them, or they are in `optionalInputs`. */
type Optional<S, Left extends readonly string[]> =
  | Left[number]
  | NamesIn<S, 'controls', 'input'>
  | NamesIn<S, 'state', 'input'>
/** Outputs that hold sequence state, which answers leave out unless requested. */
type KeptOutput<S> = NamesIn<S, 'state', 'output'>
type NamesIn<S, List extends keyof SequenceConfig, Field extends string> = S extends {
  readonly [key in List]: readonly { readonly [key in Field]: infer Name extends string }[]
}
  ? Name
  : never

type InputsOf<Entry extends InputConfig, Left extends string> = {
  [E in Entry as Exclude<E['name'], Left>]: FeedOf<E>
} & { [E in Entry as Extract<E['name'], Left>]?: FeedOf<E> | never } & {
  [Name in Exclude<Left, Entry['name']>]?: FeedValue | never
}
type OutputsOf<Entry extends OutputConfig, Kept extends string> = {
  [E in Entry as Exclude<E['name'], Kept>]: TensorOutput<E>
} & { [E in Entry as Extract<E['name'], Kept>]?: TensorOutput<E> | never }

type FeedOf<Entry extends InputConfig> = Entry extends { readonly image: object }
  ? TensorFeed<Entry> | Uint8Array
  : TensorFeed<Entry>
/** The value of an input as it is declared: of any type where it has none. */
export type TensorFeed<Entry> = Entry extends { readonly type: infer Type extends ElementType }
  ? Type extends TensorType
    ? FunctionFeed<Type>
    : RawTensor | Uint8Array | Uint16Array
  : FeedValue

/** As {@link TensorFeed}, the value of an output. */
export type TensorOutput<Entry> = Entry extends { readonly type: infer Type extends ElementType }
  ? Type extends TensorType
    ? TypedTensor<Type>
    : RawTensor
  : Tensor

/** The name of a tensor that is declared by an object, or by its name alone. */
export type NameOf<Entry> = Entry extends string
  ? Entry
  : Entry extends { readonly name: infer Name extends string }
    ? Name
    : never

/** The name of an input that requests have to give. */
export type RequiredName<Entry> = Entry extends { readonly optional: true } ? never : NameOf<Entry>

/** The name of an input that requests may leave out. */
export type OptionalName<Entry> = Entry extends { readonly optional: true } ? NameOf<Entry> : never
