import type { InferenceSession } from 'onnxruntime-common'
import { invalidArgument } from '../../errors.ts'
import type { TextTokens } from './text-padding.ts'

/** A session of transformers.js, which notes on it with which `dtype` and `device` it was opened. */
export type LoadedSession = InferenceSession & { config?: unknown }

/** What is loaded: a model of transformers.js, and what is known of its texts. */
export interface LoadedModel {
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
export function loadedModel(given: unknown): LoadedModel {
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
