import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { ProviderCapability } from 'zerohop'
import { atLeast, atMost } from '../../targets.ts'
import { capabilitiesHere, pluginFolder } from '../here.ts'
import type { Part } from '../part.ts'

const program = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url))

/** What there is to run models on. */
export const providers: Part = {
  describe:
    'the execution providers that `zerohop providers --find` lists, and the devices of the CUDA driver',
  async run() {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [program, 'providers', '--find', '--json'],
      { cwd: pluginFolder },
    )
    const listed = JSON.parse(stdout) as ProviderCapability[]
    const { cuda } = await capabilitiesHere()
    const gpus = cuda.devices.map(
      ({ name, totalBytes }) => `${name}, ${Math.round(totalBytes / 2 ** 30)} GiB`,
    )
    return {
      on: gpus.length > 0 ? gpus.join('; ') : `no GPU that the CUDA driver knows: ${cuda.reason}`,
      standIn: false,
      rows: listed.map(({ name, source, available, reason, devices }) => ({
        provider: name,
        source,
        available: available === null ? 'perhaps' : available ? 'yes' : 'no',
        devices: devices.map(({ device, name: itsName }) => `${device}: ${itsName}`).join(', '),
        reason: reason.replaceAll(/\s+/g, ' ').slice(0, 100),
      })),
      targets: [
        atLeast(1, 'providers that can be used', listed.filter(({ available }) => available).length),
        atMost(0, 'providers without a reason', listed.filter(({ reason }) => reason === '').length),
      ],
    }
  },
}
