import type { InferenceSession } from 'onnxruntime-common'
import type { ModelOptions, SessionOptions } from '../../options/model-config.ts'
import { externalFiles } from './external-file-contents.ts'
import { warnIgnored } from './ignored.ts'

/** Session options that a model takes as they are. */
const handedOn = new Set([
  'intraOpNumThreads', 'interOpNumThreads', 'freeDimensionOverrides', 'freeDimensionOverridesByDenotation', 'graphOptimizationLevel', 'enableCpuMemArena',
  'enableMemPattern', 'executionMode', 'optimizedModelFilePath', 'enableProfiling', 'profileFilePrefix', 'logId', 'logSeverityLevel', 'logVerbosityLevel', 'extra',
]) // prettier-ignore

/** Level of `logSeverityLevel` by which errors are printed. */
const printErrors = 3

/** Those read here. */
const readHere = new Set(['executionProviders', 'externalData', 'preferredOutputLocation'])

/**
 * The options of a model by those of a session: what has no effect here is left out with a warning, everything else is checked by the load.
 * `null` is as good as left out, where onnxruntime-node takes it at all.
 *
 * Without `executionProviders` a session runs on the CPU, as one of onnxruntime-node does, unless `defaults` say where.
 *
 * @param defaults for every session; what a session says itself goes before them.
 */
export async function modelSettings(
  options: InferenceSession.SessionOptions,
  defaults: ModelOptions,
): Promise<ModelOptions> {
  const given = Object.entries(options).filter(([name, value]) => isGiven(value) && !isNoise(name, value))
  for (const [name] of given)
    if (!handedOn.has(name) && !readHere.has(name))
      warnIgnored(`The session option '${name}'`, 'zerohop has none of that name.')
  checkOutputLocation(options.preferredOutputLocation)
  const sessionOptions: Record<string, unknown> = {
    ...defaults.sessionOptions,
    ...Object.fromEntries(given.filter(([name]) => handedOn.has(name))),
  }
  if (isGiven(options.externalData))
    sessionOptions['externalData'] = await externalFiles(options.externalData)
  return {
    ...defaults,
    ...providers(options, defaults),
    ...(Object.keys(sessionOptions).length > 0 && { sessionOptions: sessionOptions as SessionOptions }),
  }
}

/** Errors come as exceptions; printed would be those as well of made-up rows that a load tries, of which some are meant to fail. */
function isNoise(name: string, value: unknown): boolean {
  return name === 'logSeverityLevel' && value === printErrors
}

function isGiven<T>(value: T): value is NonNullable<T> {
  return value !== undefined && value !== null
}

function providers(
  { executionProviders }: InferenceSession.SessionOptions,
  defaults: ModelOptions,
): Pick<ModelOptions, 'executionProviders'> {
  if (isGiven(executionProviders) && executionProviders.length > 0) return { executionProviders }
  return defaults.executionProviders === undefined && defaults.instanceGroup === undefined
    ? { executionProviders: ['cpu'] }
    : {}
}

function checkOutputLocation(location: InferenceSession.SessionOptions['preferredOutputLocation']): void {
  if (!isGiven(location)) return
  const wanted = typeof location === 'string' ? [location] : Object.values(location)
  if (wanted.some((each) => each !== 'cpu'))
    warnIgnored(
      "The session option 'preferredOutputLocation'",
      'answers are always in memory of the caller (cpu).',
    )
}
