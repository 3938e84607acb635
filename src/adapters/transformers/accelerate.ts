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

/** What is said of the model behind one session. */
export interface AcceleratedModelOptions extends ModelOptions {
  /** Its file, where that is not known. */
  path?: string
}

/** Options of {@link accelerate}. */
export interface AccelerateOptions {
  /** Which engine serves it. Default: that of `zerohop/ort`. */
  engine?: InferenceEngine | undefined
  /**
   * Whether texts of different lengths share runs, where a trial shows that they can: filled up to the next of these lengths that the model takes, or to the
   * `'longest'` of a run; `false`: only texts of equal lengths do. Default: the multiples of 4 up to 64, of 8 up to 128, of 16 up to 256 and of 32 up to 512.
   */
  padding?: readonly number[] | 'longest' | false | undefined
  /** Options of models, by the names of their sessions (`model`, `encoder_model`, ...). What the session was opened with goes before them, but for where it runs. */
  models?: Readonly<Record<string, AcceleratedModelOptions>> | undefined
}

/**
 * Lengths that are filled up to: to each length, from the one before in such steps. On a CPU what is filled up costs as much as what is not, and
 * larger batches save little: measured with 64 callers of sentences, these took less CPU than longer steps, and than equal lengths only.
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
/** The last call for each pipeline: two at once would each replace, and release, what the other does. */
const lastCalls = new WeakMap<object, Promise<void>>()

/**
 * Has a loaded pipeline of `@huggingface/transformers` served by an engine: what calls of it run at the same time shares batches, on other
 * threads than the application's. The pipeline stays the same object; its sessions are replaced, and released.
 *
 * A session that takes what it has answered itself (`past_key_values` and the like) stays as it is, with a warning: its state would be copied for each token.
 *
 * @returns the pipeline that was given.
 * @throws InferenceError `ERR_INVALID_ARG`, also where the file of a session is not known, or what a load rejects with; the pipeline
 * is then as it was.
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
    await nextTurn() // in which what has been called before runs
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

/** @throws InferenceError `ERR_INVALID_ARG`, also for a session that there is not. */
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
  const origin = originOf(session)
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
  // By its own class, whose tensors transformers.js knows.
  const replacement: LoadedSession = new (session.constructor as SessionClass)(handler)
  if (replacement.inputNames !== handler.inputNames) {
    await handler.dispose()
    throw invalidArgument(`session '${name}'`, 'an InferenceSession of onnxruntime-common', session)
  }
  accelerated.add(Object.assign(replacement, { config: session.config }))
  return replacement
}

/** As the session was opened; where its model runs may be said anew. */
function sessionOptions(
  origin: SessionOrigin | undefined,
  { executionProviders, instanceGroup }: ModelOptions,
): InferenceSession.SessionOptions {
  const { executionProviders: before, ...others } = origin?.options ?? {}
  return before === undefined || executionProviders !== undefined || instanceGroup !== undefined
    ? others
    : { ...others, executionProviders: before }
}

/** transformers.js hands on as `past_...` what is answered as `present...`: keys and values, convolutions, recurrences. */
function keepsState(name: string, session: LoadedSession): boolean {
  const state = session.inputNames.find((input) => input.startsWith('past_'))
  if (state === undefined) return false
  const message = `Session '${name}' of a pipeline is not accelerated: it takes ${state.split('.')[0]}, which would be copied for each token. It runs as before.`
  process.emitWarning(message, { type: 'ZerohopWarning', code: 'ZEROHOP_NOT_ACCELERATED' })
  return true
}

/** A session of transformers.js, which notes on it with which `dtype` and `device` it was opened. */
type LoadedSession = InferenceSession & { config?: unknown }

/** What is loaded: a model of transformers.js, and what is known of its texts. */
interface LoadedModel {
  /** Its sessions by name, as it will look them up for the next call. */
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
 * @throws InferenceError `ERR_INVALID_ARG` for what is neither.
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

/** Of which file a session was opened, and how. */
interface SessionOrigin {
  /** Absolute. */
  readonly path: string
  readonly options: InferenceSession.SessionOptions
}

interface SessionFactory {
  create(...given: unknown[]): Promise<InferenceSession>
}

const origins = new WeakMap<object, SessionOrigin>()

/** What is known of a session; `undefined` for one that was opened before {@link noteOrigins}, of bytes, or by another copy of onnxruntime-node. */
function originOf(session: object): SessionOrigin | undefined {
  return origins.get(session)
}

/**
 * From now on it is noted of which file onnxruntime-node opens each session, as sessions do not tell. Nothing else about them changes, and neither
 * it nor its native part is loaded: sessions are made by the class of the onnxruntime-common that it requires.
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

/** `null` where onnxruntime-node is not installed. */
function factoryOfNode(): SessionFactory | null {
  try {
    const node = requireFromPackage.resolve('onnxruntime-node')
    const common = createRequire(node)('onnxruntime-common') as { InferenceSession: SessionFactory }
    return common.InferenceSession
  } catch {
    return null
  }
}
