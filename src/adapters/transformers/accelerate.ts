import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { InferenceSession } from 'onnxruntime-common'
import { filePath } from '../../base/files.ts'
import { requireFromPackage } from '../../base/own-package.ts'
import type { InferenceEngine } from '../../engine.ts'
import { invalidArgument } from '../../errors.ts'
import type { ModelOptions, PaddingConfig } from '../../options/model-config.ts'
import { readOptions, readPlain } from '../../options/plain-options.ts'
import { checkEngine, defaultEngine, openSession, type SessionClass } from '../ort/create-ort.ts'
import { modelSettings } from '../ort/ort-session-options.ts'
import { findTextPadding, type TextTokens } from './text-padding.ts'
import { warn } from '../../base/warnings.ts'

/** Options of the model behind one session. */
export interface AcceleratedModelOptions extends ModelOptions {
  /** The model's file, if it cannot be determined. */
  path?: string
}

/** Options of {@link accelerate}. */
export interface AccelerateOptions {
  /** The engine that serves it. Default: that of `zerohop/ort`. */
  engine?: InferenceEngine | undefined
  /**
   * Whether texts of different lengths share runs, if a trial shows that the model allows it. Default: the
   * multiples of 4 up to 64, of 8 up to 128, of 16 up to 256 and of 32 up to 512.
   *
   * - Lengths: texts are padded to the next of these that the model takes.
   * - `'longest'`: to the longest text of a run.
   * - `false`: only texts of equal lengths share runs.
   */
  padding?: readonly number[] | 'longest' | false | undefined
  /**
   * Options of models, by the names of their sessions (`model`, `encoder_model`, ...). The options that a
   * session was opened with take precedence, except for where it runs. Default: none.
   */
  models?: Readonly<Record<string, AcceleratedModelOptions>> | undefined
}

/**
 * Padded lengths: up to each length, in such steps. On a CPU padding costs as much as text, and larger
 * batches save little: with 64 callers of sentences, these steps took less CPU than longer ones, and than
 * equal lengths only.
 */
const steps: readonly (readonly [length: number, step: number])[] = [
  [64, 4],
  [128, 8],
  [256, 16],
  [512, 32],
]
const defaultSizes = steps.flatMap(([length, step], index) => {
  const from = steps[index - 1]?.[0] ?? 0
  return Array.from({ length: (length - from) / step }, (_, place) => from + step * (place + 1))
})

const accelerated = new WeakSet<object>()
/**
 * The last call for each pipeline. Concurrent calls would each replace, and release, the other's sessions.
 */
const lastCalls = new WeakMap<object, Promise<void>>()

/**
 * Makes an engine serve a loaded pipeline of `@huggingface/transformers`: concurrent calls share batches, on
 * threads other than the application's. The pipeline stays the same object; its sessions are replaced and
 * released.
 *
 * A session that takes its own earlier answers as inputs (`past_key_values` and the like) is not replaced,
 * with a warning: its state would be copied for each token.
 *
 * @returns the given pipeline.
 * @throws InferenceError `ERR_INVALID_ARG`, also if the file of a session is not known, and the errors of a
 * load. The pipeline is then unchanged.
 */
export async function accelerate<P extends object>(pipeline: P, options: AccelerateOptions = {}): Promise<P> {
  const loaded = loadedModel(pipeline)
  checkOptions(options, loaded)
  const call = Promise.allSettled([lastCalls.get(loaded.sessions)]).then(() =>
    replaceSessions(loaded, options),
  )
  lastCalls.set(loaded.sessions, call)
  await call
  return pipeline
}

/** Replaces all sessions of a model, or none. */
async function replaceSessions({ sessions, tokens }: LoadedModel, options: AccelerateOptions): Promise<void> {
  const wanted = Object.entries(sessions).filter(
    ([name, session]) => !accelerated.has(session) && !keepsState(name, session),
  )
  const put = (all: readonly LoadedSession[]) =>
    wanted.forEach(([name], index) => (sessions[name] = all[index]!))
  const before = wanted.map(([, session]) => session)
  const opening = await Promise.allSettled(
    wanted.map(([name, session]) => replacementOf(name, session, tokens, options)),
  )
  const opened = opening.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  try {
    firstFailure(opening)
    put(opened)
    await nextTurn() // earlier calls start their runs in this turn
    firstFailure(await Promise.allSettled(before.map((session) => session.release())))
  } catch (error) {
    put(before)
    await Promise.all(opened.map((session) => session.release()))
    throw error
  }
}

function firstFailure(results: readonly PromiseSettledResult<unknown>[]): void {
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

/** @throws InferenceError `ERR_INVALID_ARG`, also for an unknown session. */
function checkOptions(options: unknown, { sessions }: LoadedModel): void {
  const { engine, models = {} } = readOptions('options', options, ['engine', 'padding', 'models'])
  if (engine !== undefined) checkEngine(engine)
  for (const [name, model] of Object.entries(readOptions('options.models', models, Object.keys(sessions))))
    readPlain(`options.models.${name}`, model)
}

async function replacementOf(
  name: string,
  session: LoadedSession,
  tokens: TextTokens,
  { engine, padding = defaultSizes, models = {} }: AccelerateOptions,
): Promise<LoadedSession> {
  const { path, ...ownOptions } = models[name] ?? {}
  const origin = origins.get(session)
  const file = path ?? origin?.path
  if (file === undefined) {
    const hint = `Import zerohop/transformers before the pipeline is loaded, with the onnxruntime-node that it uses; or give its path: { models: { ${name}: { path } } }`
    throw invalidArgument(
      `session '${name}'`,
      'to have been opened of a file that is known',
      'none that is',
      { hint },
    )
  }
  const found =
    padding === false || ownOptions.padding !== undefined
      ? null
      : await findTextPadding(session, tokens, padding as PaddingConfig['sizes'])
  const settings = await modelSettings(sessionOptions(origin, ownOptions), {
    ...ownOptions,
    ...(found !== null && { padding: found }),
  })
  const handler = await openSession(engine ?? defaultEngine(), file, settings)
  // Uses the session's own class, whose tensors transformers.js recognises.
  const replacement: LoadedSession = new (session.constructor as SessionClass)(handler)
  if (replacement.inputNames !== handler.inputNames) {
    await handler.dispose()
    throw invalidArgument(`session '${name}'`, 'an InferenceSession of onnxruntime-common', session)
  }
  accelerated.add(Object.assign(replacement, { config: session.config }))
  return replacement
}

/** The options that the session was opened with. The caller may change where the model runs. */
function sessionOptions(
  origin: SessionOrigin | undefined,
  { executionProviders, instanceGroup }: ModelOptions,
): InferenceSession.SessionOptions {
  const { executionProviders: before, ...others } = origin?.options ?? {}
  return before === undefined || executionProviders !== undefined || instanceGroup !== undefined
    ? others
    : { ...others, executionProviders: before }
}

/**
 * transformers.js feeds answers named `present...` back as `past_...`: keys and values, convolutions,
 * recurrences.
 */
function keepsState(name: string, session: LoadedSession): boolean {
  const state = session.inputNames.find((input) => input.startsWith('past_'))
  if (state === undefined) return false
  const message = `Session '${name}' of a pipeline is not accelerated: it takes ${state.split('.')[0]}, which would be copied for each token. It runs as before.`
  warn('ZEROHOP_NOT_ACCELERATED', message)
  return true
}

/** A session of transformers.js, which adds the `dtype` and `device` that it was opened with. */
type LoadedSession = InferenceSession & { config?: unknown }

/** A loaded model of transformers.js, and the properties of its texts. */
interface LoadedModel {
  /** Its sessions by name. transformers.js looks them up here at each call. */
  readonly sessions: Record<string, LoadedSession>
  readonly tokens: TextTokens
}

interface PipelineParts {
  readonly model?: ModelParts | null
  readonly tokenizer?: { readonly pad_token_id?: unknown; readonly model_max_length?: unknown } | null
}

interface ModelParts {
  readonly sessions?: unknown
  readonly config?: Readonly<Record<string, unknown>> | null
}

/**
 * Finds the sessions of a pipeline, or of a model alone.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for anything else.
 */
function loadedModel(given: unknown): LoadedModel {
  const { model = given as ModelParts | null, tokenizer } = (given ?? {}) as PipelineParts
  const { sessions, config } = model ?? {}
  if (!isSessions(sessions))
    throw invalidArgument(
      'pipeline',
      'a loaded pipeline of @huggingface/transformers, or a model of it',
      given,
    )
  const { pad_token_id: ofModel, vocab_size: ofVocabulary, max_position_embeddings: positions } = config ?? {}
  const padId = wholeNumber(tokenizer?.pad_token_id) ?? wholeNumber(ofModel) ?? 0
  const longestText = Math.min(
    wholeNumber(tokenizer?.model_max_length) ?? Infinity,
    wholeNumber(positions) ?? Infinity,
  )
  return { sessions, tokens: { padId, vocabularySize: wholeNumber(ofVocabulary) ?? 2, longestText } }
}

function isSessions(sessions: unknown): sessions is Record<string, LoadedSession> {
  if (typeof sessions !== 'object' || sessions === null) return false
  const all = Object.values(sessions) as Partial<LoadedSession>[]
  return (
    all.length > 0 &&
    all.every((session) => typeof session?.run === 'function' && Array.isArray(session.inputNames))
  )
}

function wholeNumber(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? (value as number) : undefined
}

/** The file and options of a session. */
interface SessionOrigin {
  /** Absolute path. */
  readonly path: string
  readonly options: InferenceSession.SessionOptions
}

interface SessionFactory {
  create(...given: unknown[]): Promise<InferenceSession>
}

/** It lacks sessions that were opened before {@link noteOrigins}, from bytes, or by another copy of onnxruntime-node. */
const origins = new WeakMap<object, SessionOrigin>()

/**
 * Records from now on the file that onnxruntime-node opens for each session, as sessions do not expose it.
 * Sessions do not change otherwise. Neither onnxruntime-node nor its native part is loaded: sessions come
 * from the class of the onnxruntime-common that it requires.
 */
export function noteOrigins(): void {
  const factory = factoryOfNode()
  if (factory === null) return
  const { create } = factory
  factory.create = async (...given) => {
    const session = await create.apply(factory, given)
    const path = typeof given[0] === 'string' ? filePath(given[0]) : null
    if (path !== null) origins.set(session, { path: resolve(path), options: given[1] ?? {} })
    return session
  }
}

/** `null` if onnxruntime-node is not installed. */
function factoryOfNode(): SessionFactory | null {
  try {
    const node = requireFromPackage.resolve('onnxruntime-node')
    const common = createRequire(node)('onnxruntime-common') as { InferenceSession: SessionFactory }
    return common.InferenceSession
  } catch {
    return null
  }
}
