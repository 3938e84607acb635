import { createHash } from 'node:crypto'
import { cpus } from 'node:os'
import { basename, dirname } from 'node:path'
import { hashOfFile } from '../compiled-models/content-hash.ts'
import { ExternalFiles } from '../compiled-models/external-files.ts'
import { availableCores } from '../config/available-cores.ts'
import type { ModelOptions } from '../config/model-config.ts'
import { installedVersion } from '../executor/native/native-ort.ts'
import { libraryVersion } from '../library-version.ts'
import type { MeasuringSettings } from './measuring-messages.ts'

/** What figures depend on, in words that tell which of it is another one. */
export async function fingerprintOf(path: string, given: ModelOptions, { requests, engine }: MeasuringSettings, signal: AbortSignal): Promise<Record<string, string>> {
  const { usable, machine } = availableCores()
  return {
    model: await contentHash(path, signal),
    machine: [process.platform, process.arch, cpus()[0]?.model.trim() ?? '', `${usable} of ${machine} cores`].join(', '),
    'version of zerohop': libraryVersion,
    'version of ONNX Runtime': installedVersion() ?? 'unknown',
    'version of Node.js': process.versions.node,
    environment: JSON.stringify(Object.entries(process.env).filter(([name]) => name.startsWith('ZEROHOP_') && name !== 'ZEROHOP_PROGRAMS').sort()),
    'set of model options': JSON.stringify(given),
    'set of engine options': JSON.stringify(engine),
    'kind of request': JSON.stringify(requests),
  }
}

/** Of a model's file and those of its weights. */
async function contentHash(path: string, signal: AbortSignal): Promise<string> {
  const external = new ExternalFiles()
  const hash = createHash('sha256').update(await hashOfFile(path, signal, (piece) => external.look(piece)))
  for (const file of external.in(dirname(path))) hash.update(basename(file)).update(await hashOfFile(file, signal).catch(() => (signal.throwIfAborted(), 'unreadable')))
  return hash.digest('hex')
}
