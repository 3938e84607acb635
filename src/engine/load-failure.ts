import { closeSync, openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Loaded, ModelState } from './loaded.ts'
import { bindingCarrier, shownShape, type ModelMetadata } from '../tensor/metadata.ts'
import { InferenceError, invalidArgument, invalidConfig } from '../errors.ts'
import type { ModelSource } from '../options/model-source.ts'
import type { ResolvedConfig } from '../options/model-config.ts'
import { namedInputs, nameOf } from '../options/session-options.ts'
import type { OpenedSession } from '../run/executors/executor.ts'
import type { SampleFailed } from '../models/warm-up.ts'
import { otherFormat, tellingBytes } from '../onnx/other-format.ts'
import { beginningOf, NotReadable } from '../base/files.ts'
import { byteLengthOf, elementCount, isElementType, mostTensorBytes } from '../tensor/tensor.ts'

/** ONNX Runtime's message for a known operator without a kernel for these types and providers. */
const noKernel = /(?:Could not find an implementation for|Failed to find kernel for) (\S+)/

/** Its message for a string operator that needs a locale the system does not have. */
const noLocale = /Failed to construct locale with name:([\w.@-]+?):/

/** Node.js's message for a TypeScript module that it cannot read. */
const noTypes = /^Unknown file extension "\.[cm]?ts"/
const stripTypes =
  "Node 22.18 and newer read TypeScript, and 22.6 and newer with workers: { execArgv: ['--experimental-strip-types'] }; otherwise give the compiled module"

/** ONNX Runtime's messages for what is no ONNX model, which do not say why. */
const noModel = /protobuf parsing failed|ModelProto does not have a graph/i

/** Messages of ONNX Runtime and onnxruntime-node for an execution provider that is missing, or finds no device. */
const noProvider = new RegExp(
  [
    String.raw`executionProviders\[\d+\]`,
    'backend not found',
    'AppendExecutionProvider',
    String.raw`core/providers/(?!cpu/)\w+/`,
    'execution provider is not (?:enabled|supported)',
    'Failed to load shared library',
    'Unknown provider name',
    'ProviderLibrary',
  ].join('|'),
  'i',
)

/**
 * The typed error for an ONNX Runtime error on opening a model: a missing kernel, a missing execution provider, or a
 * file it cannot serve. All are `ERR_MODEL_LOAD`; `cause` has the original message.
 */
export function loadFailure(model: string, config: ResolvedConfig, cause: Error): InferenceError {
  const { path, executionProviders, instanceGroup } = config
  const providers = executionProviders?.map(nameOf) ?? instanceGroup.map(({ kind }) => kind)
  const said = cause.message.trim()
  if (config.function !== null)
    return unloadable(model, config, noTypes.test(said) ? `${said}. ${stripTypes}` : said, {
      received: path,
      cause,
    })
  const telling = path === '' ? said : said.replaceAll(path, '') // the path may contain any of these words
  const operator = noKernel.exec(telling)?.[1]
  if (operator !== undefined) {
    const message =
      `it has operator ${operator} with types for which this version of onnxruntime-node has no kernel on ${providers.join(', ')}. ` +
      `Convert the model to types that are supported, float32 as a rule, or use another execution provider. ONNX Runtime says: ${said}`
    return unloadable(model, config, message, { received: operator, cause })
  }
  const locale = noLocale.exec(telling)?.[1]
  if (locale !== undefined) {
    const message = `its texts need the locale ${locale}, which this system does not have. Install it (Debian: apt-get install locales && localedef -i ${locale.split('.')[0]} -f UTF-8 ${locale}), or set the operator's attribute locale to 'C'. ONNX Runtime says: ${said}`
    return unloadable(model, config, message, { received: locale, cause })
  }
  if (!noProvider.test(telling)) return unloadable(model, config, said, { cause })
  const details = { code: 'ERR_MODEL_LOAD', model, hint: said, cause } as const
  return invalidArgument(
    executionProviders ? 'executionProviders' : 'instanceGroup',
    'execution providers that can be used here, with options that they take',
    providers,
    details,
  )
}

/**
 * The typed error for a file, or bytes, that ONNX Runtime cannot parse, as `zerohop inspect` says it; `null` for another
 * error, and for a file in which that finds nothing wrong.
 */
export async function notAModel(
  model: string,
  config: ResolvedConfig,
  cause: Error,
): Promise<InferenceError | null> {
  const [said] = noModel.exec(cause.message) ?? []
  if (config.function !== null || said === undefined) return null
  const { whyUnreadable } = await import('../onnx/read-onnx-file.ts') // seldom needed
  const why = await whyUnreadable(config)
  return why === null ? null : unloadable(model, config, `${why}. ONNX Runtime says: ${said}`, { cause })
}

/** Error codes that say nothing about the file: the process, or the system, has too many open files. */
const outOfFiles = new Set(['EMFILE', 'ENFILE'])

export function closedWhileLoading(model: string): InferenceError {
  return new InferenceError('ERR_CLOSED', `Model '${model}' was closed while it was loading.`, { model })
}

/** The typed error of a load that failed with `error`. An error without a type means that a thread was lost. */
export function lostWhileLoading(model: string, error: Error): InferenceError {
  if (error instanceof InferenceError) return error
  const denied = (error as NodeJS.ErrnoException).code === 'ERR_ACCESS_DENIED'
  const hint = denied
    ? 'Start Node with --allow-worker beside --permission'
    : 'Load it again once the cause is removed: that starts a new thread'
  return invalidArgument('workers', 'a worker thread that keeps running', error.message, {
    code: 'ERR_MODEL_LOAD',
    model,
    cause: error,
    hint,
  })
}

/** The error for an input of images without a decoder. */
export function noDecoder(model: string, { inputs = [] }: ResolvedConfig, error: unknown): unknown {
  if (!(error instanceof InferenceError)) return error
  const { code, argument, expected, cause, message } = error
  const option = `inputs[${inputs.findIndex(({ image }) => image !== undefined)}].image`
  return new InferenceError(code, `${option} of model '${model}': ${message}`, {
    model,
    name: argument,
    expected,
    cause,
  })
}

/**
 * Checks that each configured input that is also an initializer may be overridden.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG` that says why one may not.
 */
export async function checkOverridden(
  model: string,
  config: ResolvedConfig,
  opened: OpenedSession,
): Promise<void> {
  const missing = namedInputs(config).filter((name) => !opened.inputs.some((input) => input.name === name))
  if (missing.length === 0 || config.function !== null || config.bytes !== null) return
  const { readOnnxFile } = await import('../onnx/read-onnx-file.ts') // seldom needed
  const file = await readOnnxFile(config.path).catch(() => null)
  const name = missing.find((each) => file?.initializedInputs.some((input) => input.name === each))
  if (name === undefined) return
  const option = config.optionalInputs.includes(name) ? 'optionalInputs' : 'inputs'
  const hint =
    opened.carrier === bindingCarrier
      ? `'${name}' is an initializer of the model, and onnxruntime-node's binding ignores what is given for it: use executor: 'native'`
      : `'${name}' is an initializer of the model, which ONNX Runtime overrides in files of IR version 4 or newer; this one is of version ${file!.irVersion}`
  throw invalidConfig(model, option, 'inputs that the executor can give', name, hint)
}

/** The typed error of a load with a sample that cannot run. */
export function unfitSample(model: string, error: SampleFailed): InferenceError {
  return invalidArgument(
    `warmup[${error.index}].feeds`,
    'a sample that the model can be run with',
    error.message,
    { code: 'ERR_MODEL_LOAD', model, cause: error },
  )
}

/**
 * Checks that the model is a file that can be opened, since ONNX Runtime would wait for ever on a pipe. Also detects
 * other formats that are mistaken for ONNX, for which ONNX Runtime reports only that it cannot parse them.
 *
 * @throws InferenceError `ERR_MODEL_NOT_FOUND`, or `ERR_MODEL_LOAD` for a folder, pipe, socket or device, for a file or
 * bytes of another format, and when too many files are open to check.
 */
export async function checkModelFile(model: string, source: ModelSource): Promise<void> {
  if (source.function?.run) return
  const beginning =
    source.bytes === null
      ? await readBeginning(model, source)
      : new Uint8Array(source.bytes, 0, Math.min(tellingBytes, source.bytes.byteLength))
  const other = source.function === null ? otherFormat(beginning) : null
  if (other !== null) throw unloadable(model, source, other)
}

function readBeginning(model: string, source: ModelSource): Promise<Uint8Array> {
  const { path } = source
  return beginningOf(path, tellingBytes).catch((cause: NodeJS.ErrnoException) => {
    if (cause instanceof NotReadable)
      throw unloadable(
        model,
        source,
        `${cause.message}. Give the path of ${source.function === null ? 'an .onnx or .ort file' : 'a module'}`,
        { cause },
      )
    if (outOfFiles.has(cause.code ?? '')) throw noMoreFiles(model, source, cause)
    throw new InferenceError(
      'ERR_MODEL_NOT_FOUND',
      `Model '${model}': expected a file at ${path}, received ${cause.message}`,
      {
        model,
        name: source.function === null ? 'path' : 'module',
        expected: 'a readable file',
        received: path,
        cause,
      },
    )
  })
}

/** @param source `null` for a pipeline. */
function noMoreFiles(
  model: string,
  source: ModelSource | null,
  cause: NodeJS.ErrnoException,
): InferenceError {
  const message = `no more files can be opened (${cause.code}). Close files or sockets, or raise the limit (ulimit -n), and load it again`
  if (source !== null) return unloadable(model, source, message, { cause })
  return new InferenceError('ERR_MODEL_LOAD', `Pipeline '${model}' cannot be loaded: ${message}`, {
    model,
    cause,
  })
}

/** More than the code that serves models has. */
const filesOfCode = 16

/**
 * Checks that this process may open as many files as that code has. If an import fails once, Node.js refuses it for as long as the
 * process lives.
 *
 * @param source `null` for a pipeline.
 * @throws InferenceError `ERR_MODEL_LOAD` if it may not.
 */
export function checkFileDescriptors(model: string, source: ModelSource | null): void {
  const opened: number[] = []
  try {
    while (opened.length < filesOfCode) opened.push(openSync(fileURLToPath(import.meta.url), 'r'))
  } catch (error) {
    const cause = error as NodeJS.ErrnoException
    if (outOfFiles.has(cause.code ?? '')) throw noMoreFiles(model, source, cause)
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

/** An `ERR_MODEL_LOAD` about the file or bytes of a model; these are `received` unless another value is given. */
function unloadable(
  model: string,
  { path, bytes, function: fn }: ModelSource,
  message: string,
  details: { received?: unknown; cause?: unknown } = {},
): InferenceError {
  const given = bytes === null ? path : `its ${bytes.byteLength} bytes`
  const needsFolder = bytes !== null && /external data/i.test(message)
  const hint = needsFolder
    ? '. A model given as bytes has no external data: give it as sessionOptions.externalData, give the path of the model, or save it in one file'
    : ''
  return new InferenceError(
    'ERR_MODEL_LOAD',
    `Model '${model}' cannot be loaded from ${given}: ${message}${hint}`,
    {
      model,
      name: fn !== null ? 'module' : bytes === null ? 'path' : 'bytes',
      expected:
        fn !== null ? 'a module whose default export is a function' : 'a model that ONNX Runtime can load',
      received: bytes === null ? path : `${bytes.byteLength} bytes`,
      ...details,
    },
  )
}

/**
 * Refuses a model with rows too large for any memory, from the declared shapes of its inputs and outputs; variable
 * dimensions count as 1.
 *
 * @param usableBytes of memory.
 * @throws InferenceError `ERR_MODEL_LOAD`, which names the size.
 */
export function checkRowBytes(
  model: string,
  { inputs, outputs }: Pick<ModelMetadata, 'inputs' | 'outputs'>,
  usableBytes: number,
): void {
  const mostBytes = Math.min(mostTensorBytes, usableBytes)
  const values = [
    ...inputs.map((value) => ({ kind: 'input', ...value })),
    ...outputs.map((value) => ({ kind: 'output', ...value })),
  ]
  let allBytes = 0
  for (const { kind, name, type, shape } of values) {
    if (!isElementType(type)) continue
    const bytes = byteLengthOf(type, elementCount(shape.map((dim) => (typeof dim === 'number' ? dim : 1))))
    allBytes += bytes
    if (bytes > mostBytes)
      throw tooLarge(
        `${kind} '${name}'`,
        mostBytes,
        `${bytes} bytes in ${shownShape(shape)} of ${type}`,
        model,
      )
  }
  if (allBytes > usableBytes)
    throw tooLarge('inputs and outputs', usableBytes, `${allBytes} bytes in all`, model)
}

function tooLarge(what: string, mostBytes: number, received: string, model: string): InferenceError {
  const hint = 'Export the model with open dimensions, or with smaller ones'
  return invalidArgument(what, `at most ${mostBytes} bytes in one row`, received, {
    code: 'ERR_MODEL_LOAD',
    model,
    hint,
  })
}

/** Advice for a caller on a model that is not ready, other than to load it again. */
const nextStep: Partial<Record<ModelState, string>> = {
  loading: 'Wait for load().',
  draining: 'It accepts no more requests, because it or its engine is closing.',
}

/** The error for a request to a model that is not ready. */
export function notReady(model: string, { state, failure, engine }: Loaded): InferenceError {
  const closed = state === 'draining' || state === 'closed'
  const why = failure === null ? '' : `: ${failure}`
  const again = engine.models.closed ? 'So is its engine: make a new InferenceEngine.' : 'Load it again.'
  const message = `Model '${model}' is ${state}${why}. ${nextStep[state] ?? again}`
  return new InferenceError(closed ? 'ERR_CLOSED' : 'ERR_MODEL_NOT_READY', message, {
    model,
    expected: 'ready',
    received: state,
  })
}
