import { resolve } from 'node:path'
import * as v from 'valibot'
import { filePath } from '../base/files.ts'
import { optionsOf, properties } from './options-schema.ts'

/** The type of numbers that a provider computes in, whatever those of the model are. */
export type ComputePrecision = 'float32' | 'float16' | 'bfloat16'

export const computePrecisions: readonly ComputePrecision[] = ['float32', 'float16', 'bfloat16']

/** An execution provider that is a library of its own; see {@link EngineOptions.providers}. */
export interface ProviderPlugin {
  /** The library: a path, or a `file:` URL. It is loaded by the first model that asks for it, and stays for the life of the process. */
  library: string | URL
  /** The type of numbers it is to compute in. Default: what the provider chooses, which may be less than the model's own. */
  precision?: ComputePrecision
  /** Options of its sessions, unless a model gives others in its `executionProviders`. */
  options?: Readonly<Record<string, unknown>>
}

/** A plugin with its options checked. */
export interface ResolvedPlugin {
  readonly name: string
  /** Absolute. */
  readonly library: string
  readonly precision: ComputePrecision | undefined
  readonly options: Readonly<Record<string, unknown>>
}

/** How one session uses a plugin: an entry of its `executionProviders`. */
export class PluginProvider {
  readonly name: string
  /** Of those that the plugin offers. */
  readonly device: number
  readonly entries: Readonly<Record<string, string>>
  /** Whether threads may run one session at the same time. */
  readonly sharable: boolean
  /** `null` for the provider's own choice. */
  readonly precision: ComputePrecision | null

  constructor(
    name: string,
    device: number,
    entries: Readonly<Record<string, string>>,
    sharable: boolean,
    precision: ComputePrecision | null,
  ) {
    this.name = name
    this.device = device
    this.entries = entries
    this.sharable = sharable
    this.precision = precision
  }
}

/** Names that mean something else. */
const taken = new Set(['auto', 'cpu', 'cuda'])
const nameSchema = v.pipe(
  v.string(),
  v.check(
    (name) => /^[a-z][a-z0-9_-]{0,63}$/.test(name) && !taken.has(name),
    "a name of lower-case letters, digits, '_' and '-' that is not auto, cpu or cuda",
  ),
)

/** Schema of `EngineOptions.providers`. */
export const providersSchema = v.pipe(
  properties,
  v.record(
    nameSchema,
    optionsOf({
      library: v.pipe(v.custom<string | URL>((given) => filePath(given) !== null, 'a path or a file: URL')),
      precision: v.optional(v.picklist(computePrecisions)),
      options: v.optional(properties, {}),
    }),
  ),
  v.transform((plugins) =>
    Object.entries(plugins).map(([name, plugin]): ResolvedPlugin => {
      const { library, precision, options } = plugin as {
        library: string | URL
        precision?: ComputePrecision
        options: Readonly<Record<string, unknown>>
      }
      return { name, library: resolve(filePath(library)!), precision, options }
    }),
  ),
)
