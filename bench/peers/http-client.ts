import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { step } from './environments.ts'
import { cacheFolder } from './folders.ts'
import type { HttpRequest, HttpResponse } from './peer.ts'

const sources = fileURLToPath(new URL('client/', import.meta.url))

/** Builds the load generator on first use; where it is. */
export async function httpClient(): Promise<string> {
  const hash = createHash('sha256')
  for (const name of readdirSync(sources).sort()) hash.update(name).update(readFileSync(join(sources, name)))
  const program = join(cacheFolder('client'), hash.digest('hex').slice(0, 12))
  if (existsSync(program)) return program
  const unfinished = `${program}.${process.pid}.tmp`
  await step(process.env['CXX'] ?? 'c++', [
    '-std=c++20',
    '-O2',
    '-Wall',
    '-Wextra',
    '-o',
    unfinished,
    join(sources, 'main.cc'),
  ])
  renameSync(unfinished, program)
  return program
}

/** Writes requests as the load generator reads them: each as it goes over the line, after its length. */
export function writeRequests(path: string, port: number, requests: readonly HttpRequest[]): void {
  const parts = requests.flatMap((request) => {
    const bytes = onTheLine(port, request)
    const length = Buffer.alloc(4)
    length.writeUInt32LE(bytes.length)
    return [length, bytes]
  })
  writeFileSync(path, Buffer.concat(parts))
}

function onTheLine(port: number, { path, headers, body }: HttpRequest): Buffer {
  const all = { host: `127.0.0.1:${port}`, ...headers, 'content-length': String(body.length) }
  const lines = [
    `POST ${path} HTTP/1.1`,
    ...Object.entries(all).map(([name, value]) => `${name}: ${value}`),
    '',
    '',
  ]
  return Buffer.concat([Buffer.from(lines.join('\r\n')), body])
}

/** The responses that it kept, each with the index of its request. */
export function readSamples(path: string): { index: number; response: HttpResponse }[] {
  const bytes = readFileSync(path)
  const samples = []
  for (let at = 0; at + 8 <= bytes.length;) {
    const [index, length] = [bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4)]
    samples.push({ index, response: parsed(bytes.subarray(at + 8, at + 8 + length)) })
    at += 8 + length
  }
  return samples
}

function parsed(bytes: Buffer): HttpResponse {
  const end = bytes.indexOf('\r\n\r\n')
  const lines = bytes.toString('latin1', 0, end).split('\r\n').slice(1)
  const headers = Object.fromEntries(
    lines.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ]),
  )
  const body = bytes.subarray(end + 4)
  return { headers, body: headers['transfer-encoding'] === 'chunked' ? joinedChunks(body) : body }
}

function joinedChunks(body: Buffer): Buffer {
  const chunks = []
  for (let at = 0; ;) {
    const line = body.indexOf('\r\n', at)
    const size = parseInt(body.toString('latin1', at, line), 16)
    if (size === 0) return Buffer.concat(chunks)
    chunks.push(body.subarray(line + 2, line + 2 + size))
    at = line + 2 + size + 2
  }
}
