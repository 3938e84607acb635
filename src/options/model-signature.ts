import type { Tensor, TypedTensor } from 'onnxruntime-common'
import type { ElementType, RawTensor, TensorData, TensorType } from '../tensor/tensor.ts'
import type { MapEntry, OutputValue } from '../tensor/values.ts'
import type { FunctionFeed } from './function-module.ts'
import type { ModelConfig } from './model-config.ts'
import type { SequenceConfig } from './sequence-config.ts'
import type { InputConfig, OutputConfig } from './tensor-config.ts'

/** One input as a caller gives it: a tensor, or the bare data of exactly one row (or of the whole unbatched input): strings in an array, or one by itself. */
export type FeedValue = Tensor | RawTensor | TensorData | string | readonly string[] | StructuredFeed

/**
 * An input that is no tensor: a sequence as an array, a map as an object (or a `Map` where keys are integers), an optional
 * one that is not given as `null`.
 */
export type StructuredFeed =
  | readonly FeedValue[]
  | ReadonlyMap<bigint | number, MapEntry>
  | { readonly [key: string]: MapEntry }
  | null

/** Inputs by name, as for `InferenceSession.run`; dims include the batch dimension. */
export type Feeds = Readonly<Record<string, FeedValue>>

/** Outputs by name; each holds the request's own rows and belongs to the caller. */
export type AnyOutputs = Record<string, OutputValue>

/** The same of a model without a signature: see {@link AnySignature}. */
export type Outputs = Record<string, Tensor>

/** Names and types of a model's inputs and outputs, for `engine.load<M>()`. */
export interface ModelSignature {
  /** What requests give, by name. */
  inputs: Record<string, FeedValue>
  /** What they are answered with, by name. */
  outputs: AnyOutputs
}

/**
 * The signature of a model whose inputs and outputs are known only at run time. TypeScript takes each output for a
 * `Tensor`, as nearly all are; for another kind give the model a signature of its own (`zerohop types` writes it).
 */
export interface AnySignature extends ModelSignature {
  /** What requests give, by name. */
  inputs: Record<string, FeedValue>
  /** What they are answered with, by name. */
  outputs: Outputs
}

/** Names of the outputs of a model. */
export type OutputName<M extends ModelSignature> = keyof M['outputs'] & string

/**
 * What a request answers with that names the outputs it wants: those; all of them where it names none (`never`). Not to ask
 * of `M` more than this: it would keep a `Model<M>` from being a `Model`.
 */
export type WantedOutputs<M extends ModelSignature, Name extends OutputName<M>> = [Name] extends [never]
  ? M['outputs']
  : Pick<M['outputs'], Name>

/** A configuration whose names and types the compiler keeps; an option that an entry does not have is as wrong as everywhere. */
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

/** Nothing where all options are known: what is said twice would keep the compiler from taking the overload. */
type KnownOptions<Entries extends readonly object[], Known> = {
  readonly [Index in keyof Entries]: Never<
    Exclude<keyof Entries[Index], keyof Known> | Misspelt<Entries[Index], Known>
  >
}
/** Options, such as `image`, that have one of their own that there is not. */
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
 * The signature that a configuration says itself: the inputs and outputs that it lists, by name; types where it has them. A list
 * that is left out, or kept in a variable without literal types, says nothing: those names are known at run time only.
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

/** As {@link ConfiguredSignature}; the signature of any model where the configuration has no literal list. */
export type SignatureOf<
  I extends readonly InputConfig[],
  O extends readonly OutputConfig[],
  S extends SequenceConfig,
  Left extends readonly string[],
> = string extends I[number]['name'] & O[number]['name'] ? AnySignature : ConfiguredSignature<I, O, S, Left>

/** Inputs that requests may leave out: a sequence fills them, or the model does without. */
type Optional<S, Left extends readonly string[]> =
  | Left[number]
  | NamesIn<S, 'controls', 'input'>
  | NamesIn<S, 'state', 'input'>
/** Outputs that a sequence keeps for itself unless they are asked for. */
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
  [E in Entry as Exclude<E['name'], Kept>]: OutputOf<E>
} & { [E in Entry as Extract<E['name'], Kept>]?: OutputOf<E> | never }

type FeedOf<Entry extends InputConfig> = Entry extends { readonly image: object }
  ? TypedFeed<Entry> | Uint8Array
  : TypedFeed<Entry>
type TypedFeed<Entry extends InputConfig> = Entry extends { readonly type: infer Type extends ElementType }
  ? Type extends TensorType
    ? FunctionFeed<Type>
    : RawTensor | Uint8Array | Uint16Array
  : FeedValue
type OutputOf<Entry extends OutputConfig> = Entry extends { readonly type: infer Type extends ElementType }
  ? Type extends TensorType
    ? TypedTensor<Type>
    : RawTensor
  : Tensor
