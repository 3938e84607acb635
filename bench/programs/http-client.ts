import autocannon from 'autocannon'
import { answer, input } from '../child.ts'

/** Connections that each wait for their answer before they ask again. */
export interface HttpClient {
  readonly url: string
  readonly connections: number
  readonly bodyBytes: number
  readonly warmupSeconds: number
  readonly seconds: number
}

export interface HttpClientResult {
  readonly requestsPerSecond: number
}

const { url, connections, bodyBytes, warmupSeconds, seconds } = input<HttpClient>()
const body = Buffer.from(new Float32Array(bodyBytes / 4).fill(0.5).buffer)
const load = {
  url: `${url}/infer`,
  method: 'POST',
  headers: { 'content-type': 'application/octet-stream' },
  body,
  connections,
} as const

await autocannon({ ...load, duration: warmupSeconds })
await fetch(`${url}/measure`)
const found = await autocannon({ ...load, duration: seconds })
if (found.errors + found.non2xx > 0)
  throw new Error(`${found.errors} requests failed, ${found.non2xx} were answered by an error`)
answer({ requestsPerSecond: found['2xx'] / found.duration } satisfies HttpClientResult)
