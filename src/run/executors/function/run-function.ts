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
import { type InputRows, slotInputs, mailedInputs } from './function-inputs.ts'
import type { RunTimestamps, SlotLayout, SampleRun } from '../executor.ts'
import type { RowFailures } from '../../../schedule/batch.ts'
import type { MailedValue } from '../../../tensor/values.ts'
import { messageOf } from '../../../base/message-of.ts'
import { writeOutputs, type SentOutputs } from './function-outputs.ts'

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

/** A slot of staging memory, as a function's runs see it. */
export interface FunctionSlot {
  readonly bytes: SharedArrayBuffer
  readonly layouts: SlotLayout[]
  /** Inputs of its next batch that do not lie in it. */
  mailed: readonly (MailedValue | null)[] | null
}

/** What has come of a batch. */
export interface BatchOutcome {
  readonly error: string | null
  /** Outputs that do not lie in the slot; `null` when all do. */
  readonly sent: SentOutputs | null
  readonly failures: RowFailures | null
}

/** Tells of a run, and what time it is. */
interface RunWatch {
  nowMs(): number
  begins(context: RunContext): void
}

const failed = (reason: unknown): BatchOutcome => ({ error: messageOf(reason), sent: null, failures: null })

/**
 * Calls a function with the batch that lies in a slot, and writes what it gives there. Never throws or rejects.
 *
 * @param times are filled in.
 * @returns at once where the function does.
 */
export function runBatch(
  open: OpenFunction | null,
  slot: FunctionSlot | undefined,
  layoutIndex: number,
  times: RunTimestamps,
  watch: RunWatch,
): BatchOutcome | Promise<BatchOutcome> {
  times.startMs = times.inferStartMs = watch.nowMs()
  const outcome = call(open, slot, layoutIndex, times, watch)
  if (outcome instanceof Promise) return outcome.then((settled) => ended(settled, times, watch))
  return ended(outcome, times, watch)
}

function call(
  open: OpenFunction | null,
  slot: FunctionSlot | undefined,
  layoutIndex: number,
  times: RunTimestamps,
  watch: RunWatch,
): BatchOutcome | Promise<BatchOutcome> {
  try {
    const layout = slot?.layouts[layoutIndex]
    if (open === null || slot === undefined || layout === undefined)
      throw new Error('The function or the slot of its batch was closed.')
    const inputs = slotInputs(open, layout, slot.bytes, slot.mailed)
    slot.mailed = null
    const context = open.contextOf(inputs)
    watch.begins(context)
    times.inferStartMs = watch.nowMs()
    const finish = (given: unknown): BatchOutcome => {
      times.inferEndMs = watch.nowMs()
      if (context.isDetached) throw new Error('its result came too late')
      const { rows, failed: isFailed } = context
      if (context.failures?.length === rows) return { error: null, sent: null, failures: context.failures }
      const sent = writeOutputs(open.outputs, layout, slot.bytes, given, {
        rows,
        failed: isFailed,
        batched: open.batched,
      })
      return { error: null, sent, failures: context.failures }
    }
    const given = open.call(inputs, context)
    return isThenable(given) ? Promise.resolve(given).then(finish).catch(failed) : finish(given)
  } catch (reason) {
    return failed(reason)
  }
}

function ended(outcome: BatchOutcome, times: RunTimestamps, watch: RunWatch): BatchOutcome {
  times.endMs = watch.nowMs()
  if (outcome.error !== null) times.inferEndMs = times.endMs
  return outcome
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  )
}

/**
 * Calls a function once with a sample; rejects with what it throws.
 *
 * @returns what it gave, and the buffers of its outputs, to be moved.
 */
export async function callOnSample(
  open: OpenFunction,
  feeds: readonly (MailedValue | null)[],
  wantsOutputs: boolean,
): Promise<{ run: SampleRun; transfer: ArrayBuffer[] }> {
  const inputs = mailedInputs(open, feeds)
  const context = open.contextOf(inputs)
  const startMs = performance.now()
  const given = await open.call(inputs, context)
  const runMs = performance.now() - startMs
  const { rows, failed } = context
  const [failure] = context.failures ?? []
  if (failure !== undefined) throw new Error(failure[1])
  const sent = writeOutputs(
    open.outputs,
    { outputs: open.outputs.map(() => null) },
    new ArrayBuffer(0),
    given,
    { rows, failed, batched: open.batched },
  )!
  return {
    run: { error: null, runMs, outputs: wantsOutputs ? (sent.outputs as MailedValue[]) : [] },
    transfer: wantsOutputs ? sent.transfer : [],
  }
}

/** What a function is called with beside its batch. */
export class RunContext implements FunctionContext {
  readonly model: string
  readonly parameters: FunctionInstance['parameters']
  readonly state: unknown
  readonly rows: number
  /** Whether it was detached: another batch may lie where it would write its outputs. */
  isDetached = false
  readonly #failures = new Map<number, string>()
  #controller: AbortController | null = null
  #unwanted = false

  constructor({ model, parameters }: FunctionInstance, state: unknown, rows: number) {
    this.model = model
    this.parameters = parameters
    this.state = state
    this.rows = rows
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#unwanted) this.unwanted()
    }
    return this.#controller.signal
  }

  readonly fail = (row: number, error: unknown): null => {
    if (!(Number.isInteger(row) && row >= 0 && row < this.rows))
      throw new RangeError(`context.fail() got row ${row} of a batch that has ${this.rows}`)
    if (!this.#failures.has(row)) this.#failures.set(row, messageOf(error))
    return null
  }

  /** Whether a row has no answer. */
  readonly failed = (row: number): boolean => this.#failures.has(row)

  /** Rows that have no answer; `null` for none. */
  get failures(): RowFailures | null {
    return this.#failures.size === 0 ? null : [...this.#failures]
  }

  /** The batch is cancelled. */
  unwanted(): void {
    this.#unwanted = true
    this.#controller?.abort(new DOMException('All callers of the batch have given up.', 'AbortError'))
  }
}
