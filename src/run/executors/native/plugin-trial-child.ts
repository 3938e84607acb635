// A program: tries the plugin that its arguments name, and tells its parent what came of it.
import { openNativeOrt } from './native-ort.ts'
import type { TrialResult } from './trial-process.ts'

const [name, library] = process.argv.slice(2) as [string, string]
process.once('disconnect', () => process.exit()) // the parent has ended

async function attempt(): Promise<TrialResult> {
  const ort = openNativeOrt()
  if (ort.binding === null) return { reason: ort.reason }
  try {
    return { devices: await ort.binding.registerProvider(name, library, true) }
  } catch (error) {
    return { reason: (error as Error).message }
  }
}

const result = await attempt()
process.send!(result, () => process.exit())
