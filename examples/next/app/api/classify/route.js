import { classifier } from '../../../lib/classifier.js'

export const dynamic = 'force-dynamic'

const maxBytes = 10 * 2 ** 20
/** Pictures that come or wait may take so much memory together. */
const maxHeldBytes = 512 * 2 ** 20
let heldBytes = 0
/** What a caller is told of each failure that is not ours. */
const statuses = { ERR_IMAGE_DECODE: 415, ERR_QUEUE_FULL: 429, ERR_TIMEOUT: 503, ERR_CLOSED: 503 }

/** A picture as the body, its five likeliest classes as the answer. Those that come at the same time share a run. */
export async function POST(request) {
  // As much as it says, or as is allowed.
  const bytes = Math.min(maxBytes, Number(request.headers.get('content-length')) || maxBytes)
  if (heldBytes + bytes > maxHeldBytes) return refusal(503, 'Too many pictures come at once.')
  heldBytes += bytes
  try {
    return await classify(request)
  } finally {
    heldBytes -= bytes
  }
}

async function classify(request) {
  const model = await classifier()
  const [input] = model.metadata.inputs
  try {
    const image = await bytesOf(request)
    if (image === null) return refusal(413, `A picture may have ${maxBytes} bytes.`)
    // Who has gone is not waited for.
    const outputs = await model.infer({ [input.name]: image }, { timeoutMs: 10_000, signal: request.signal })
    const [classes] = model.classification(outputs, 5)
    return Response.json({
      classes: classes.map(({ index, label, value }) => ({ label: label ?? `class ${index}`, score: value })),
    })
  } catch (error) {
    if (request.signal.aborted) return new Response(null, { status: 499 })
    const status = statuses[error.code]
    if (status === undefined) throw error
    return refusal(status, error.message, error.retryAfterMs)
  }
}

/** Who comes too early is told when to come back, in whole seconds. */
function refusal(status, error, retryAfterMs = 1000) {
  const headers =
    status === 429 || status === 503
      ? { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
      : {}
  return Response.json({ error }, { status, headers })
}

/** For whoever watches the service. */
export async function GET() {
  const model = await classifier()
  return Response.json({ state: model.state, classified: model.stats().inferenceCount })
}

/** The body, or `null` where it is too large: what is over the limit is not read. */
async function bytesOf(request) {
  const parts = []
  let size = 0
  for await (const part of request.body ?? []) {
    size += part.byteLength
    if (size > maxBytes) return null
    parts.push(part)
  }
  return Buffer.concat(parts)
}
