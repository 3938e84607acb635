import {
  availableCores,
  availableMemory,
  type AvailableCores,
  type AvailableMemory,
} from '../base/available-resources.ts'
import { InferenceEngine, type Capabilities } from '../index.ts'
import { failureOf, type Failure } from './command-line.ts'

/** What `zerohop devices` finds: what an engine has in use once it serves a model, and what trying the execution providers shows. */
export interface DeviceReport extends Omit<Capabilities, 'cpu'> {
  readonly cores: AvailableCores
  readonly memory: AvailableMemory
  /** Why not even the smallest model can be served. */
  readonly error?: Failure
}

/** Serves the smallest model there is: before that an engine has chosen nothing. */
export async function lookAround(): Promise<DeviceReport> {
  process.removeAllListeners('warning') // of what it falls back to, which the report says
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
