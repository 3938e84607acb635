import { createHash } from 'node:crypto'
import { inspect } from 'node:util'
import type { ResolvedConfig } from '../../options/model-config.ts'
import type { ModelRuntime } from '../../options/session-options.ts'
import { graphOptionsOf } from './compiled-form.ts'
import { cpuFeatures } from './cpu-features.ts'

/**
 * The name of an entry: another one for all that makes another compiled form, or might fail where this did not.
 *
 * @param obstacle why there is to be no compiled form; else `null`.
 */
export function entryKey(
  content: string,
  runtime: ModelRuntime,
  config: ResolvedConfig,
  obstacle: string | null,
): string {
  const { executor, ortVersion, onCpuOnly } = runtime
  const providers = onCpuOnly
    ? 'cpu'
    : inspect([config.executionProviders, config.instanceGroup.map(({ kind, gpus }) => [kind, gpus])], {
        depth: null,
      })
  const parts = [
    content,
    executor,
    ortVersion,
    process.platform,
    process.arch,
    cpuFeatures(),
    providers,
    obstacle,
    inspect(graphOptionsOf(config), { depth: null, maxArrayLength: null, maxStringLength: null }),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}
