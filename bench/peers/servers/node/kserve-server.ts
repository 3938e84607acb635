import { createServer } from 'node:http'
import { kserve } from 'zerohop/kserve'
import { openEngine } from './back-end.ts'
import type { ServerInput } from './server.ts'

// zerohop's own server of the KServe protocol, which Triton speaks.

const { workload, settings, port } = JSON.parse(process.argv[2]!) as ServerInput
const { engine } = await openEngine('peer', workload, settings)
createServer(kserve(engine)).listen(port, '127.0.0.1')
