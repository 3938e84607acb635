import { createRequire } from 'node:module'
import type { InferenceSession, Tensor, TensorConstructor, Env } from 'onnxruntime-common'
import type { RawValueMetadata } from '../../tensor/metadata.ts'
import { nameOfType } from '../../tensor/elements.ts'
import { isSince } from '../../base/platform.ts'

/**
 * The only file that knows onnxruntime-node. Besides the public API it uses the package's inner binding, if that has the
 * expected form. Its `run` is a plain call, where the public one first takes a turn of the event loop. Its metadata also
 * describes outputs of types for which the public API refuses the whole model.
 */

/** Values by name, as `run` takes and gives them. */
export type NamedTensors = Record<string, Tensor>

/** An open session. */
export interface Session {
  readonly inputs: RawValueMetadata[]
  readonly outputs: RawValueMetadata[]
  run(
    feeds: NamedTensors,
    fetches: Record<string, null>,
    quiet?: boolean,
  ): NamedTensors | Promise<NamedTensors>
  release(): void | Promise<void>
}

interface BindingMetadata {
  name: string
  isTensor: boolean
  type: number
  shape: number[]
  symbolicDimensions: string[]
}

interface BindingSession {
  loadModel(path: string, options: InferenceSession.SessionOptions): void
  loadModel(
    buffer: ArrayBuffer,
    byteOffset: number,
    byteLength: number,
    options: InferenceSession.SessionOptions,
  ): void
  run(feeds: NamedTensors, fetches: Record<string, null>, options: InferenceSession.RunOptions): NamedTensors
  dispose(): void
  readonly inputMetadata: BindingMetadata[]
  readonly outputMetadata: BindingMetadata[]
}

interface InnerBinding {
  binding: { InferenceSession: new () => BindingSession }
  initOrt(): void
}

interface PublicApi {
  InferenceSession: {
    create(path: string | Uint8Array, options: InferenceSession.SessionOptions): Promise<InferenceSession>
  }
  Tensor: TensorConstructor
  env: Env
  listSupportedBackends(): { name: string }[]
}

/** From this number on, ONNX Runtime's element types differ from those of `TensorProto.DataType`. */
const ownNumbers = 24

/** The oldest version that can be loaded again after the last thread that had loaded it has ended. */
const oldest = [1, 25] as const

const notATensor = 'a sequence, map, optional or sparse value'
/** Run options by what ONNX Runtime logs. Errors reach the caller as exceptions: a trial run should not print them too. */
const fatalOnly: InferenceSession.RunOptions = { logSeverityLevel: 4 }
const defaultRunOptions: InferenceSession.RunOptions = {}

/** onnxruntime-node as this thread has loaded it. */
export class Runtime {
  readonly version: string
  readonly Tensor: TensorConstructor
  readonly #api: PublicApi
  readonly #inner: InnerBinding | null

  /** Loads onnxruntime-node; throws what `require` throws, or that the installed version is too old. */
  constructor() {
    const require = createRequire(import.meta.url)
    checkVersion(require)
    this.#api = require('onnxruntime-node') as PublicApi
    // The first environment of the process decides what ONNX Runtime logs outside of sessions: no errors, which are thrown.
    this.#api.env.logLevel = 'fatal'
    this.Tensor = this.#api.Tensor
    this.version = this.#api.env.versions.node ?? this.#api.env.versions.common
    this.#inner = innerBinding(require)
  }

  /**
   * Opens a model; rejects with ONNX Runtime's own error.
   *
   * @param model its path, or its bytes, which are copied: the binding takes no shared memory.
   */
  async open(model: string | SharedArrayBuffer, options: InferenceSession.SessionOptions): Promise<Session> {
    const source = typeof model === 'string' ? model : new Uint8Array(model).slice()
    if (this.#inner === null) return publicSession(await this.#api.InferenceSession.create(source, options))
    this.#inner.initOrt()
    const session = new this.#inner.binding.InferenceSession()
    if (typeof source === 'string') session.loadModel(source, options)
    else session.loadModel(source.buffer, 0, source.byteLength, options)
    return innerSession(session)
  }

  /** The execution providers that are built in, by the names that sessions have for them. */
  get providers(): string[] {
    return this.#api.listSupportedBackends().map(({ name }) => name)
  }

  /** Opens a model held in memory, through the public API. */
  async openBytes(
    bytes: Uint8Array,
    options: InferenceSession.SessionOptions = {},
  ): Promise<InferenceSession> {
    return this.#api.InferenceSession.create(bytes, { logSeverityLevel: 4, ...options })
  }
}

/** To be called before the package is loaded: an older one fails with an unhelpful message, and only from the second load on. */
function checkVersion(require: NodeJS.Require): void {
  let version: string
  try {
    ;({ version } = require('onnxruntime-node/package.json') as { version: string })
  } catch {
    return // loading the package reports better what is wrong
  }
  if (!isSince(version, oldest)) throw new Error(`its version ${version} is older than ${oldest.join('.')}`)
}

function innerBinding(require: NodeJS.Require): InnerBinding | null {
  try {
    const inner = require('onnxruntime-node/dist/binding') as Partial<InnerBinding>
    const methods = inner.binding?.InferenceSession.prototype as Partial<BindingSession> | undefined
    if (methods === undefined || typeof inner.initOrt !== 'function') return null
    // `inputMetadata` is a getter that needs a session; look at the property, do not read it.
    const complete = ['loadModel', 'run', 'dispose', 'inputMetadata', 'outputMetadata'].every(
      (name) => name in methods,
    )
    return complete ? (inner as InnerBinding) : null
  } catch {
    return null // another layout of the package: the public API is used
  }
}

function innerSession(session: BindingSession): Session {
  const metadata = (values: BindingMetadata[]): RawValueMetadata[] =>
    values.map(({ name, isTensor, type, shape, symbolicDimensions }) => ({
      name,
      type: isTensor ? (type < ownNumbers ? nameOfType(type) : `element type ${type}`) : notATensor,
      shape: isTensor ? shape.map((dim, axis) => (dim < 0 ? (symbolicDimensions[axis] ?? '') : dim)) : [],
    }))
  return {
    inputs: metadata(session.inputMetadata),
    outputs: metadata(session.outputMetadata),
    run: (feeds, fetches, quiet) =>
      session.run(feeds, fetches, quiet === true ? fatalOnly : defaultRunOptions),
    release: () => session.dispose(),
  }
}

function publicSession(session: InferenceSession): Session {
  const metadata = (values: readonly InferenceSession.ValueMetadata[]): RawValueMetadata[] =>
    values.map((value) => ({
      name: value.name,
      type: value.isTensor ? value.type : notATensor,
      shape: value.isTensor ? [...value.shape] : [],
    }))
  return {
    inputs: metadata(session.inputMetadata),
    outputs: metadata(session.outputMetadata),
    run: async (feeds, fetches, quiet) =>
      (await session.run(feeds, fetches, quiet === true ? fatalOnly : defaultRunOptions)) as NamedTensors,
    release: () => session.release(),
  }
}

/** An ONNX model of one Identity node, float32 [1] -> [1]. */
export const identityModel = Buffer.from(
  'CAhCAhANOjcKEAoBeBIBeSIISWRlbnRpdHkSAWdaDwoBeBIKCggIARIECgIIAWIPCgF5EgoKCAgBEgQKAggB',
  'base64',
)

/** Whether ONNX Runtime takes views of a SharedArrayBuffer as inputs here: found out by a run, not by version numbers. */
export async function acceptsSharedMemory(runtime: Runtime): Promise<boolean> {
  try {
    const session = await runtime.openBytes(identityModel)
    const data: Float32Array = new Float32Array(new SharedArrayBuffer(4))
    data[0] = 7
    const { y } = await session.run(
      { x: new runtime.Tensor('float32', data as Float32Array<ArrayBuffer>, [1]) },
      ['y'],
      { logSeverityLevel: 4 },
    )
    await session.release()
    return (y?.data as Float32Array | undefined)?.[0] === 7
  } catch {
    return false
  }
}
