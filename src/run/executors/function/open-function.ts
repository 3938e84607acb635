import { pathToFileURL } from 'node:url'
import type { FunctionSource } from '../../../options/model-source.ts'
import type {
  FunctionBatch,
  FunctionContext,
  FunctionInstance,
  ModelFunction,
} from '../../../options/function-module.ts'
import { describe } from '../../../errors.ts'
import type { TensorMetadata } from '../../../tensor/metadata.ts'
import type { InputRows } from './input-rows.ts'
import { RunContext } from './run-context.ts'

interface FunctionModule {
  readonly default: ModelFunction
  setup?(instance: FunctionInstance): unknown
  teardown?(context: FunctionInstance & Pick<FunctionContext, 'state'>): unknown
}

/** A function whose module is loaded and set up: one instance, with its state. */
export class OpenFunction {
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
  readonly batched: boolean
  readonly #module: FunctionModule
  readonly #instance: FunctionInstance
  readonly #state: unknown

  private constructor(
    module: FunctionModule,
    { inputs, outputs, batched }: FunctionSource,
    instance: FunctionInstance,
    state: unknown,
  ) {
    this.inputs = inputs as readonly TensorMetadata[]
    this.outputs = outputs as readonly TensorMetadata[]
    this.batched = batched
    this.#module = module
    this.#instance = instance
    this.#state = state
  }

  /** Rejects with what the module, or its `setup`, has thrown, or that it exports no function. */
  static async open(path: string, source: FunctionSource): Promise<OpenFunction> {
    const module =
      source.run === null
        ? moduleOf((await import(pathToFileURL(path).href)) as { default?: unknown })
        : { default: source.run }
    const instance: FunctionInstance = Object.freeze({ model: source.model, parameters: source.parameters })
    return new OpenFunction(module, source, instance, await module.setup?.(instance))
  }

  /** Calls the function with a batch. What it gives is not looked at. */
  call(inputs: readonly (InputRows | undefined)[], context: RunContext): unknown {
    const batch: Record<string, InputRows> = {}
    for (const [index, rows] of inputs.entries())
      if (rows !== undefined) batch[this.inputs[index]!.name] = rows
    return this.#module.default(batch as FunctionBatch, context)
  }

  /** What the function is called with beside these inputs. */
  contextOf(inputs: readonly (InputRows | undefined)[]): RunContext {
    return new RunContext(this.#instance, this.#state, inputs.find((given) => given !== undefined)!.rows)
  }

  async teardown(): Promise<void> {
    await this.#module.teardown?.({ ...this.#instance, state: this.#state })
  }
}

/** Of a CommonJS module that was compiled from an ES module, the exports are in its default one. */
function moduleOf(exports: { default?: unknown }): FunctionModule {
  const inner = exports.default as { default?: unknown } | undefined
  const module = (
    typeof inner === 'object' && inner !== null && 'default' in inner ? inner : exports
  ) as Partial<FunctionModule>
  if (typeof module.default !== 'function')
    throw new Error(
      `expected a function as the default export of the module, received ${describe(module.default)}`,
    )
  for (const name of ['setup', 'teardown'] as const) {
    if (module[name] !== undefined && typeof module[name] !== 'function')
      throw new Error(`expected the module's ${name} to be a function, received ${describe(module[name])}`)
  }
  return {
    default: module.default,
    ...(module.setup && { setup: module.setup }),
    ...(module.teardown && { teardown: module.teardown }),
  }
}
