import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { run } from '../../child.ts'
import { benchModel } from '../../models.ts'
import { round } from '../../statistics.ts'
import { atLeast } from '../../targets.ts'
import { built } from '../build.ts'
import { mediansOf, ofTheLink, type CopyRate } from '../copy-rates.ts'
import { capabilitiesHere } from '../here.ts'
import type { Part } from '../part.ts'
import { cudaDriver } from '../stand-ins.ts'

const device = 0
const linkBytes = 256 * 2 ** 20
/** One image of 3 x 224 x 224 as float32, 32 of them, and more than that. */
const slotBytes = [3 * 224 * 224 * 4, 32 * 3 * 224 * 224 * 4, 64 * 2 ** 20]
const sources = ['cuda_driver', 'dynamic_library', 'memory_source', 'slab', 'staging_pool'].map(
  (name) => `native/${name}.cc`,
)

/** Whether staging memory is copied as fast as the link to the device can. */
export const pageLocked: Part = {
  describe:
    'copies between the device and page-locked staging memory, pageable memory, and, for what the link can do, a large page-locked block',
  async run({ seconds, rounds }) {
    const { cuda } = await capabilitiesHere()
    const environment = cuda.available ? {} : cudaDriver()
    const program = join(built('copies', ['bench/gpu/programs/copies.cc', ...sources], []), 'copies')
    const args = [device, seconds, linkBytes, ...slotBytes].map(String)
    const found: CopyRate[][] = []
    for (let count = 0; count < rounds; count++) {
      const { stdout } = await promisify(execFile)(program, args, { env: { ...process.env, ...environment } })
      found.push(JSON.parse(stdout) as CopyRate[])
    }
    const rates = ofTheLink(mediansOf(found))
    const largest = rates.findLast(({ memory }) => memory === 'page-locked')!
    const pinnedBytes = await run<number>(
      'gpu/programs/slots.ts',
      { path: benchModel('mlp').path, device },
      [],
      environment,
    )
    return {
      on: cuda.available
        ? cuda.devices[device]!.name
        : `the CUDA driver of the C++ tests, whose device is memory of the process (${cuda.reason.split(';', 1)[0]})`,
      standIn: !cuda.available,
      rows: rates.map(({ memory, bytes, toDevice, fromDevice, toDeviceOfLink, fromDeviceOfLink }) => ({
        memory,
        MiB: round(bytes / 2 ** 20),
        'GB/s to the device': round(toDevice, 1),
        'GB/s from it': round(fromDevice, 1),
        'to it, of the link': round(toDeviceOfLink),
        'from it, of the link': round(fromDeviceOfLink),
      })),
      targets: [
        atLeast(
          1,
          'copies that came back as they went, of all',
          rates.filter(({ right }) => right).length / rates.length,
        ),
        atLeast(1, 'MiB page-locked for a model that is placed on the device', round(pinnedBytes / 2 ** 20)),
        ...(cuda.available
          ? [
              atLeast(0.9, 'page-locked copies to the device, of the link', round(largest.toDeviceOfLink, 3)),
              atLeast(0.9, 'page-locked copies from it, of the link', round(largest.fromDeviceOfLink, 3)),
            ]
          : []),
      ],
    }
  },
}
