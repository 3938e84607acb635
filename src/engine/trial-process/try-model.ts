// A program: tries a model on the CPU with the native executor. It loads no engine and starts no worker, for which a first load
// would have to wait.
import { availableCores } from '../../base/available-resources.ts'
import type { ResolvedConfig } from '../../options/model-config.ts'
import { sessionOptions, type SessionRuntime } from '../../options/session-options.ts'
import { NativeExecutor } from '../../run/executors/native/native-executor.ts'
import { openNativeOrt, startNativeOrt } from '../../run/executors/native/native-ort.ts'
import { switchOffTelemetry } from '../../run/telemetry.ts'
import { shapeTensors } from '../../request/shaped-tensors.ts'
import { servable } from '../../tensor/metadata.ts'
import { tryModels, type TrialSession } from './trial-steps.ts'

type Entry = Parameters<SessionRuntime['useProvider']>[0]

let executor: NativeExecutor | null = null
let lastId = 0

/** @throws Error when the addon, or ONNX Runtime, cannot be loaded. */
async function startedExecutor(): Promise<NativeExecutor> {
  const ort = openNativeOrt()
  if (ort.binding === null) throw new Error(ort.reason)
  const events = { finished: () => {}, died: () => {} }
  const started = new NativeExecutor(ort, events, 0)
  await started.start()
  return started
}

switchOffTelemetry(undefined) // the process that started this one has said what the user wants
startNativeOrt() // while the task is on its way
tryModels(async ({ model }, config, how) => {
  const native = (executor ??= await startedExecutor())
  const placement = { kind: 'cpu', gpu: 0, intraOpNumThreads: availableCores().usable } as const
  const runtime = { ortVersion: openNativeOrt().version ?? '', useProvider: (entry: Entry) => entry }
  const id = ++lastId
  const opened = await native.open(
    id,
    ...how(config.bytes ?? config.path, sessionOptions(config, placement, runtime)),
  )
  return {
    values: shaped(config, servable(model, opened, opened.carrier)),
    runSample: (feeds) => native.runSample(id, feeds, true),
    close: () => native.close(id),
  }
})

/** Gives tensors the shapes of the configuration. If it does not fit the model, they stay as they are: the load reports it. */
function shaped(config: ResolvedConfig, values: TrialSession['values']): TrialSession['values'] {
  try {
    return shapeTensors('', { ...config, maxBatchSize: undefined }, values).served
  } catch {
    return values
  }
}
