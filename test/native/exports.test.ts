import { expect, it } from 'vitest'
import { BINDING_VERSION, loadBinding } from '../../src/native/addon.ts'

/** What the addon of a version has. Who changes this raises the version: BINDING_VERSION, kBindingVersion in native/addon.cc, and here. */
const known = {
  version: '11',
  addon:
    'CompletionHub RunLoop acquire acquireAsync builtInProviders claimLimit configure copyRows cudaProbe decodeJpeg dropLimit fillRows lend noteExit nowMs openJpegDecoder openOnnxRuntime processes registerProvider release startLoop stats threadCpuMs trim vectorInstructions version writePlanes',
  CompletionHub: 'constructor take takeDetails',
  RunLoop:
    'arena busy cancelBatch cancelQuestion close constructor defineLayout defineSlot dispose end enterPages forgetSlot id note open runHere runSample setNote shrinkArena stop submit takeBack',
  processes: 'Bell close connect createArea handOver lock openArea peer receive releaseArea send socketPair',
}

const { binding } = loadBinding()
const namesOf = (value: object) => Object.getOwnPropertyNames(value).sort().join(' ')

it.skipIf(binding === null)(
  'the addon has what its version says, so that one that was left over is refused and not called',
  () => {
    const { version, CompletionHub, RunLoop, processes } = binding!
    const processNames = processes == null ? known.processes : namesOf(processes)
    const found = {
      version,
      addon: namesOf(binding!),
      CompletionHub: namesOf(CompletionHub.prototype as object),
      RunLoop: namesOf(RunLoop.prototype as object),
      processes: processNames,
    }
    expect(found).toEqual(known)
    expect(version).toBe(BINDING_VERSION)
  },
)
