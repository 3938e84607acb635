import { createRequire } from 'node:module'
import { availableParallelism, homedir, tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { floatsOf } from '../answers.ts'
import type { Command, HttpPeer, InProcessPeer, Peer, Versions } from '../peer.ts'
import type { BackEndSettings } from '../servers/node/back-end.ts'
import type { Workload } from '../workload.ts'

/** What Node peers have in common: each is in process, and behind the same Fastify server. */

export type SettingsOf = (workload: Workload) => BackEndSettings

interface NodePeer {
  readonly describe: string
  readonly settingsOf: SettingsOf
  readonly setUp?: Peer['setUp']
  readonly lowPrecision?: boolean
}

const cores = availableParallelism()

export const isSmall = ({ name }: Workload): boolean => name.startsWith('mlp')

/** Runs of the MLP are too short to be shared among threads; those of images have all cores. */
export const threadsOf = (workload: Workload): number => (isSmall(workload) ? 1 : cores)

export function inProcess(
  name: string,
  { describe, settingsOf, setUp, lowPrecision }: NodePeer,
): InProcessPeer {
  return {
    kind: 'in process',
    name,
    describe,
    lacks: (workload) => (workload === 'mlp-binary' ? 'in process there is no form' : null),
    setUp: setUp ?? (async () => ownVersions()),
    settings: (workload) => ({ ...settingsOf(workload) }),
    program: () => program('loop.ts', []),
    ...(lowPrecision === undefined ? {} : { lowPrecision }),
  }
}

export function behindFastify(
  name: string,
  { describe, settingsOf, setUp, lowPrecision }: NodePeer,
): HttpPeer {
  return {
    kind: 'http',
    name,
    describe,
    setUp: async (options) => ({
      ...packageVersions('fastify'),
      ...((await setUp?.(options)) ?? ownVersions()),
    }),
    settings: (workload) => ({ ...settingsOf(workload) }),
    server: (workload, [port]) => serverProgram('server.ts', workload, settingsOf, port),
    request: ({ json, jpeg }, body) =>
      json
        ? {
            path: '/json',
            headers: { 'content-type': 'application/json' },
            body: Buffer.from(JSON.stringify({ input: Array.from(floatsOf(body)) })),
          }
        : {
            path: '/binary',
            headers: { 'content-type': jpeg ? 'image/jpeg' : 'application/octet-stream' },
            body,
          },
    answer: ({ json }, { body }) =>
      json ? Float32Array.from((JSON.parse(body.toString()) as { output: number[] }).output) : floatsOf(body),
    ...(lowPrecision === undefined ? {} : { lowPrecision }),
  }
}

/** What a measurement depends on is no earlier one, as in the other benchmarks; but what tsx has compiled stays with the user. */
const environment = {
  ZEROHOP_CACHE: 'off',
  ZEROHOP_VERIFY: 'none',
  NODE_ENV: 'production',
  HOME: homedir(),
  TMPDIR: tmpdir(),
}

export function serverProgram(
  file: string,
  workload: Workload,
  settingsOf: SettingsOf,
  port: number | undefined,
): Command {
  const { name, model, jpeg, maxBatchSize, files } = workload
  const settings = settingsOf(workload)
  return program(file, [
    JSON.stringify({ workload: { name, model, jpeg, maxBatchSize, files }, settings, port }),
  ])
}

function program(file: string, args: readonly string[]): Command {
  const path = fileURLToPath(new URL(`../servers/node/${file}`, import.meta.url))
  return { file: process.execPath, args: ['--import', 'tsx', path, ...args], env: environment }
}

/** Of what runs the models and decodes the images of peers that bring nothing of their own. */
export function ownVersions(): Versions {
  return packageVersions('onnxruntime-node', '@julusian/jpeg-turbo')
}

export function packageVersions(...names: string[]): Versions {
  const require = createRequire(import.meta.url)
  return Object.fromEntries(
    names.map((name) => [name, (require(`${name}/package.json`) as { version: string }).version]),
  )
}
