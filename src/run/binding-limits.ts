import type { ResolvedConfig } from '../options/resolve-model-config.ts'
import { invalidArgument } from '../errors.ts'

/** Providers of which onnxruntime-node passes nothing on but `deviceId`. */
const deviceOnly = new Set(['cuda', 'tensorrt'])

/**
 * Refuses what onnxruntime-node would leave out without a word.
 *
 * @throws InferenceError `ERR_MODEL_CONFIG`.
 */
export function refuseForBinding(
  model: string,
  { sessionOptions, runEntries, executionProviders = [] }: ResolvedConfig,
): void {
  const refuse = (option: string, received: unknown): void => {
    const hint = "Take executor: 'native', which carries it"
    throw invalidArgument(option, "to be left out with executor: 'binding', which ignores it", received, {
      code: 'ERR_MODEL_CONFIG',
      model,
      hint,
    })
  }
  for (const option of ['freeDimensionOverrides', 'freeDimensionOverridesByDenotation'] as const) {
    if (sessionOptions[option] !== undefined) refuse(`sessionOptions.${option}`, sessionOptions[option])
  }
  if (Object.keys(runEntries).length > 0) refuse('runOptions.extra', runEntries)
  for (const [index, provider] of executionProviders.entries()) {
    if (typeof provider === 'string' || !deviceOnly.has(provider.name)) continue
    const dropped = Object.keys(provider).find((option) => !['name', 'deviceId', 'required'].includes(option))
    if (dropped !== undefined)
      refuse(
        `executionProviders[${index}].${dropped}`,
        (provider as unknown as Record<string, unknown>)[dropped],
      )
  }
}
