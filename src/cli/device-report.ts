import {
  availableCores,
  availableMemory,
  type AvailableCores,
  type AvailableMemory,
} from '../base/available-resources.ts'
import { InferenceEngine, type Capabilities } from '../index.ts'
import { failureOf, type Failure } from './command-line.ts'

/**
 * The result of `zerohop devices`: what an engine uses once it serves a model, and the result of trying the
 * execution providers.
 */
export interface DeviceReport extends Omit<Capabilities, 'cpu'> {
  readonly cores: AvailableCores
  readonly memory: AvailableMemory
  /** Why even the smallest model cannot be served. */
  readonly error?: Failure
}

/** Serves the smallest possible model: an engine makes its choices at the first load. */
export async function lookAround(): Promise<DeviceReport> {
  process.removeAllListeners('warning') // about fallbacks, which the report contains
  const engine = new InferenceEngine()
  let error: Failure | undefined
  try {
    await engine.load('identity', { bytes: identity, instanceGroup: [{ kind: 'cpu' }] })
    await engine.probeProviders()
  } catch (cause) {
    error = failureOf(cause)
  }
  const { cpu: _, ...capabilities } = engine.capabilities()
  await engine.close()
  return {
    cores: availableCores(),
    memory: availableMemory(),
    ...capabilities,
    ...(error === undefined ? {} : { error }),
  }
}

/** An ONNX model of one operator: `y = Identity(x)`, both float32 of shape ['N']. */
const identity = Buffer.from(
  'CAg6QAoQCgF4EgF5IghJZGVudGl0eRIIaWRlbnRpdHlaEAoBeBILCgkIARIFCgMSAU5iEAoBeRILCgkIARIFCgMSAU5CAhAR',
  'base64',
)
