import { createHash } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { cpus } from 'node:os'
import { basename, dirname, join } from 'node:path'
import {
  hashOfFile,
  ExternalFiles,
  availableCores,
  installedVersion,
  libraryVersion,
  packageFolder,
} from 'zerohop/internals'
import { ownFolder } from '../own-files.ts'
import { buildHash } from './build-hash.ts'
import type { TuneSettings } from './tune-settings.ts'
import { isMadeUp } from '../perf/input/generated-data.ts'

let ownBuild: string | undefined

/**
 * What figures depend on, in words that tell which of it is another one.
 *
 * @throws what reading the files throws, and the reason of the signal.
 */
export async function fingerprintOf(
  { path, options, kind, measuring: { requests, engine } }: TuneSettings,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const { usable, machine } = availableCores()
  return {
    model: await contentHash(path, signal),
    machine: [
      process.platform,
      process.arch,
      cpus()[0]?.model.trim() ?? '',
      `${usable} of ${machine} cores`,
    ].join(', '),
    'version of zerohop': libraryVersion,
    'build of zerohop': (ownBuild ??= `${buildHash(packageFolder)}-${buildHash(ownFolder)}`),
    'version of ONNX Runtime': installedVersion() ?? 'unknown',
    'version of Node.js': process.versions.node,
    environment: JSON.stringify(
      Object.entries(process.env)
        .filter(([name]) => name.startsWith('ZEROHOP_') && name !== 'ZEROHOP_PROGRAMS')
        .sort(),
    ),
    provider: kind,
    'set of model options': JSON.stringify(options),
    'set of engine options': JSON.stringify(engine),
    'kind of request': JSON.stringify([requests, await dataHashes(requests.inputData, signal)]),
  }
}

/** Of a model's file and those of its weights. */
async function contentHash(path: string, signal: AbortSignal): Promise<string> {
  const external = new ExternalFiles()
  const hash = createHash('sha256').update(await hashOfFile(path, signal, (piece) => external.look(piece)))
  for (const file of external.in(dirname(path)))
    hash
      .update(basename(file))
      .update(await hashOfFile(file, signal).catch(() => (signal.throwIfAborted(), 'unreadable')))
  return hash.digest('hex')
}

/** Of files, and of those in folders. */
async function dataHashes(inputData: readonly string[], signal: AbortSignal): Promise<string[]> {
  const hashes: string[] = []
  for (const path of inputData) {
    if (isMadeUp(path)) continue
    const files = (await stat(path)).isDirectory()
      ? (await readdir(path)).sort().map((name) => join(path, name))
      : [path]
    for (const file of files) hashes.push(await hashOfFile(file, signal))
  }
  return hashes
}
