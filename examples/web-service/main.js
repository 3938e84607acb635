import { createService } from './service.js'
import { readSettings } from './settings.js'

const settings = readSettings(process.env)
const service = await createService(settings)

// What was accepted is answered, and no more is taken: see `preClose` and `onClose` of the service.
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => {
    void service.close()
    // Who sends no more of a file, or does not take its answer, would be waited for for ever.
    setTimeout(() => service.server.closeAllConnections(), settings.timeoutMs).unref()
  })
}

await service.listen({ host: settings.host, port: settings.port })
console.log(`listening on ${service.listeningOrigin}, the engine at ${service.listeningOrigin}/inspector`)
