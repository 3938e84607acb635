import rateLimit from '@fastify/rate-limit'
import fastify from 'fastify'
import { Registry, collectDefaultMetrics } from 'prom-client'
import { InferenceEngine } from 'zerohop'
import { inspector } from 'zerohop/inspector'
import { prometheusMetrics } from 'zerohop/prometheus'
import { answerTo } from './answers.js'
import { addPage } from './page.js'

const imageTypes = ['image/jpeg', 'image/png', 'image/webp', 'image/gif', 'image/avif', 'image/heic']

/**
 * The service, ready to listen. Closing it answers what was accepted, and releases everything.
 *
 * @param {ReturnType<import('./settings.js').readSettings>} settings
 */
export async function createService({ model: path, labels, image, maxBytes, maxPerMinute, maxWaiting, timeoutMs }) {
  const engine = new InferenceEngine()
  const model = await loadClassifier(engine, { path, labels, image, maxWaiting })
  const [input] = model.metadata.inputs

  const service = fastify({ bodyLimit: maxBytes })
  service.setErrorHandler((error, request, reply) => {
    const { status, headers, body } = answerTo(error)
    if (status === 500) request.log.error(error)
    return reply.code(status).headers(headers).send(body)
  })
  // A file is the body, as it is: no other type is read, and no more than `maxBytes` of it.
  service.removeAllContentTypeParsers()
  service.addContentTypeParser(imageTypes, { parseAs: 'buffer' }, (_, body, done) => done(null, body))
  await service.register(rateLimit, { global: false })

  service.post('/classify', { config: { rateLimit: { max: maxPerMinute, timeWindow: '1 minute' } } }, async (request, reply) => {
    const outputs = await model.infer({ [input.name]: request.body }, { timeoutMs, signal: untilGone(reply.raw) })
    const [classes] = model.classification(outputs, Math.min(5, labels?.length ?? 5))
    return { classes: classes.map(({ index, label, value }) => ({ label: label ?? `class ${index}`, score: value })) }
  })
  service.get('/ready', (_, reply) => reply.code(model.state === 'ready' ? 200 : 503).send({ state: model.state }))
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
  if (inputs.length !== 1 || outputs.length !== 1) throw new Error(`${path}: expected a model of one input and one output, received ${inputs.length} and ${outputs.length}`)
  return engine.load('classifier', {
    path,
    inputs: [{ name: inputs[0].name, image }],
    outputs: [{ name: outputs[0].name, labels }],
    dynamicBatching: { defaultQueuePolicy: { maxQueueSize: maxWaiting } },
  })
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
  const inspect = inspector(engine, { title: 'The engine of the picture service' })
  service.get('/inspector', (request, reply) => {
    reply.hijack()
    inspect(request.raw, reply.raw)
  })
  service.addHook('preClose', async () => inspect.close()) // its events would never end
}
