import { join } from 'node:path'
import { floatsOf } from '../answers.ts'
import { pinnedVersions, pythonEnvironment } from '../environments.ts'
import { cache, source } from '../folders.ts'
import type { Command, HttpPeer, InProcessPeer } from '../peer.ts'
import type { Workload } from '../workload.ts'

/** What Python peers have in common: an environment of their own, and onnxruntime in it. */

export const pythonOf = (peer: string): string => join(cache, peer, 'venv/bin/python')

export const noForm: NonNullable<InProcessPeer['lacks']> = (workload) =>
  workload === 'mlp-binary' ? 'in process there is no form' : null

/** Sets up what the peer's requirements pin, and names the packages that matter. */
export const setUpPython =
  (peer: string, ...packages: string[]) =>
  async () => {
    await pythonEnvironment(peer)
    return pinnedVersions(peer, packages)
  }

/** A program of a peer, run by its own Python. */
export function python(
  peer: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Command {
  return {
    file: pythonOf(peer),
    args,
    env: { PYTHONPATH: `${source('python')}:${source(peer)}`, PYTHONDONTWRITEBYTECODE: '1', ...env },
  }
}

/** What servers in Python are told, by an environment variable that their workers have as well. */
export function settingsVariable(
  { name, model, jpeg, json, maxBatchSize }: Workload,
  settings: object,
): Readonly<Record<string, string>> {
  return { PEER_SETTINGS: JSON.stringify({ workload: { name, model, jpeg, json, maxBatchSize }, settings }) }
}

type Forms = Pick<HttpPeer, 'request' | 'answer'>

const binary = 'application/octet-stream'

/** JSON of a row, or its bytes as they are, each to a path of its own. */
export const jsonOrBytes = (jsonPath: string, bytesPath: string): Forms => ({
  request: ({ json, jpeg }, body) =>
    json
      ? {
          path: jsonPath,
          headers: { 'content-type': 'application/json' },
          body: Buffer.from(JSON.stringify({ input: Array.from(floatsOf(body)) })),
        }
      : { path: bytesPath, headers: { 'content-type': jpeg ? 'image/jpeg' : binary }, body },
  answer: ({ json }, { body }) =>
    json ? Float32Array.from((JSON.parse(body.toString()) as { output: number[] }).output) : floatsOf(body),
})

/** JSON of a row, or its bytes as a file of a form, for those that take no bytes as they are. */
export const jsonOrForm = (jsonPath: string, formPath: string): Forms => ({
  request(workload, body) {
    if (workload.json) return jsonOrBytes(jsonPath, formPath).request(workload, body)
    const boundary = 'zerohop-peers-boundary'
    const type = workload.jpeg ? 'image/jpeg' : binary
    const head = `--${boundary}\r\ncontent-disposition: form-data; name="body"; filename="body"\r\ncontent-type: ${type}\r\n\r\n`
    return {
      path: formPath,
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
      body: Buffer.concat([Buffer.from(head), body, Buffer.from(`\r\n--${boundary}--\r\n`)]),
    }
  },
  answer: jsonOrBytes(jsonPath, formPath).answer,
})
