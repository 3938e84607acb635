import { InferenceError } from 'zerohop'

/** What a caller is told of each failure of the engine; of all others 500. */
const statuses = {
  ERR_INVALID_ARG: 400,
  ERR_IMAGE_DECODE: 415,
  ERR_QUEUE_FULL: 429,
  ERR_TIMEOUT: 503,
  ERR_DEADLINE: 503,
  ERR_CLOSED: 503,
  ERR_MODEL_NOT_READY: 503,
  ERR_INSTANCE_CRASHED: 503,
}

/** Limits of an image: an error of decoding that names one is of its size, not of its kind. */
const sizeLimits = ['limitInputPixels', 'limitInputBytes']

/**
 * What is answered to an error: of the engine, of Fastify (413, 415, 429), or of a client that has gone.
 *
 * @param {Error & { statusCode?: number }} error
 */
export function answerTo(error) {
  if (!(error instanceof InferenceError)) {
    const status = error.name === 'AbortError' ? 499 : (error.statusCode ?? 500)
    return {
      status,
      headers: status === 503 ? { 'retry-after': '1' } : {},
      body: { error: status === 500 ? 'This was our fault.' : error.message },
    }
  }
  const { code, argument, message, retryAfterMs } = error
  const status =
    code === 'ERR_IMAGE_DECODE' && sizeLimits.some((limit) => argument?.endsWith(limit))
      ? 413
      : (statuses[code] ?? 500)
  // In whole seconds, as HTTP has it; a client of ours reads the milliseconds.
  const headers =
    status === 429 || status === 503
      ? { 'retry-after': String(Math.max(1, Math.ceil((retryAfterMs ?? 1000) / 1000))) }
      : {}
  return {
    status,
    headers,
    body: {
      error: status === 500 ? 'This was our fault.' : message,
      code,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  }
}
