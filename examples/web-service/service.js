import { finished } from 'node:stream/promises'
import rateLimit from '@fastify/rate-limit'
import fastify from 'fastify'
import { Registry, collectDefaultMetrics } from 'prom-client'
import { InferenceEngine } from 'zerohop'
import { inspector } from 'zerohop/inspector'
import { prometheusMetrics } from 'zerohop/prometheus'
import { answerTo } from './answers.js'
import { addPage } from './page.js'

const imageTypes = ['image/jpeg', 'image/png', 'image/webp', 'image/gif'] // not HEIC: phones that are not told that it may be send JPEG instead
/** What strangers may have decoded. Not AVIF, a kilobyte of which can be a picture that takes a gigabyte and many seconds. */
const decoding = { formats: ['jpeg', 'png', 'webp', 'gif'], limitInputPixels: 25_000_000 }

/**
 * The service, ready to listen. Closing it answers what was accepted, and releases everything.
 *
 * @param {ReturnType<import('./settings.js').readSettings>} settings
 */
export async function createService({
  model: path,
  labels,
  image,
  maxBytes,
  maxHeldBytes,
  maxPerMinute,
  maxWaiting,
  uploadMs,
  timeoutMs,
  proxies,
}) {
  const engine = new InferenceEngine()
  const model = await loadClassifier(engine, { path, labels, image, maxWaiting })
  const [input] = model.metadata.inputs

  const service = fastify({ bodyLimit: maxBytes, requestTimeout: uploadMs, trustProxy: proxies })
  service.setErrorHandler(async (error, request, reply) => {
    const { status, headers, body } = answerTo(error)
    if (status === 500) request.log.error(error)
    await restOf(request.raw, timeoutMs)
    return reply.code(status).headers(headers).send(body)
  })
  // A file is the body, as it is: no other type is read, and no more than `maxBytes` of it.
  service.removeAllContentTypeParsers()
  service.addContentTypeParser(imageTypes, { parseAs: 'buffer' }, (_, body, done) => done(null, body))
  await service.register(rateLimit, { global: false })

  const onRequest = heldBytes(maxHeldBytes, maxBytes)
  service.post(
    '/classify',
    { onRequest, config: { rateLimit: { max: maxPerMinute, timeWindow: '1 minute' } } },
    async (request, reply) => {
      if (request.body === undefined) throw refusal(415, 'Expected a picture as the body, received nothing.')
      const outputs = await model.infer(
        { [input.name]: request.body },
        { timeoutMs, signal: untilGone(reply.raw) },
      )
      const [classes] = model.classification(outputs, Math.min(5, labels?.length ?? 5))
      return {
        classes: classes.map(({ index, label, value }) => ({
          label: label ?? `class ${index}`,
          score: value,
        })),
      }
    },
  )
  service.get('/ready', (_, reply) =>
    reply.code(model.state === 'ready' ? 200 : 503).send({ state: model.state }),
  )
  addMetrics(service, engine)
  addInspector(service, engine)
  addPage(service, { imageTypes, maxBytes })
  endConnectionsOnClose(service)
  service.addHook('onClose', () => engine.close())
  return service
}

async function loadClassifier(engine, { path, labels, image, maxWaiting }) {
  // Which input and output there are is known only once it was loaded.
  const { inputs, outputs } = (await engine.load('classifier', { path })).metadata
  if (inputs.length !== 1 || outputs.length !== 1)
    throw new Error(
      `${path}: expected a model of one input and one output, received ${inputs.length} and ${outputs.length}`,
    )
  return engine.load('classifier', {
    path,
    inputs: [{ name: inputs[0].name, image: { ...decoding, ...image } }],
    outputs: [{ name: outputs[0].name, labels }],
    dynamicBatching: { defaultQueuePolicy: { maxQueueSize: maxWaiting } },
  })
}

/** Refuses a file while those that come and wait may take as much memory as they all may: each as much as it says, or as is allowed. */
function heldBytes(most, maxBytes) {
  let held = 0
  return async ({ headers }, reply) => {
    const bytes = Math.min(maxBytes, Number(headers['content-length'] ?? maxBytes))
    if (held + bytes > most) throw refusal(503, 'Too many files come at once.')
    held += bytes
    reply.raw.once('close', () => (held -= bytes))
  }
}

function refusal(statusCode, message) {
  return Object.assign(new Error(message), { statusCode })
}

/** Takes what a client still sends that is refused: were its connection closed before, it might never see why. */
async function restOf(request, mostMs) {
  if (!request.complete)
    await finished(request.resume(), { signal: AbortSignal.timeout(mostMs) }).catch(() => {})
}

/** Aborts what is done for a client that has gone before it was answered. */
function untilGone(response) {
  const gone = new AbortController()
  response.once('close', () => {
    if (!response.writableFinished) gone.abort()
  })
  return gone.signal
}

/** What is answered while the service closes is the last on its connection: kept alive, it would have to be waited for. */
function endConnectionsOnClose(service) {
  let isClosing = false
  service.addHook('preClose', async () => void (isClosing = true))
  service.addHook('onSend', async (_, reply) => {
    if (isClosing) reply.header('connection', 'close')
  })
}

function addMetrics(service, engine) {
  const register = new Registry()
  collectDefaultMetrics({ register })
  const remove = prometheusMetrics(engine, { register })
  service.get('/metrics', async (_, reply) => reply.type(register.contentType).send(await register.metrics()))
  service.addHook('onClose', async () => remove())
}

/** Whoever reaches the service reaches it, too: put what you have for that before it. */
function addInspector(service, engine) {
  const inspect = inspector(engine, { path: '/inspector', title: 'The engine of the picture service' })
  service.addHook('onRequest', (request, reply, done) => inspect(request.raw, reply.raw, done))
  service.addHook('preClose', async () => inspect.close()) // its events would never end
}
