import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { InferenceEngine, type Capabilities } from 'zerohop'

const installed = fileURLToPath(new URL('../../.cache/providers/webgpu', import.meta.url))

/** A folder to look for plugins from: where `scripts/providers/install-webgpu.mjs` installs its own, or else the checkout. */
export const pluginFolder = existsSync(installed)
  ? installed
  : fileURLToPath(new URL('../..', import.meta.url))

/** What an engine says of this machine. */
export async function capabilitiesHere(): Promise<Capabilities> {
  const engine = new InferenceEngine({ executor: 'native' })
  const capabilities = engine.capabilities()
  await engine.close()
  return capabilities
}
