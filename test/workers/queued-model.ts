import { KeepAlive } from '../../src/base/clock.ts'
import type { ModelConfig } from '../../src/index.ts'
import { noOptions } from '../../src/options/infer-options.ts'
import { resolveConfig } from '../../src/options/model-config.ts'
import { ModelInstance } from '../../src/run/model-instance.ts'
import { InferRequest } from '../../src/request/infer-request.ts'
import { RunTimes } from '../../src/schedule/estimates.ts'
import { Joining } from '../../src/schedule/joining.ts'
import { ObservedRequests } from '../../src/schedule/observed-requests.ts'
import { Scheduler } from '../../src/schedule/scheduler.ts'
import { FakeClock } from '../fake-clock.ts'

const nothing = (): void => {}
const proof = { rows: 'independent', node: null, reason: 'proved' } as const

/** The queue of a model with rows of `width` elements. A run of 32 rows takes 0.1 ms; one of 64 takes `ms64`, or was never run if that is 0. */
export function queued({ config = {}, width = 4, type = 'float32', isProved = true, ms64 = 0 } = {}) {
  const resolved = resolveConfig('m', { path: 'm.onnx', checkRows: false, ...config } as ModelConfig)
  const value = (name: string) => ({ name, type: type as 'float32', shape: ['N', width] })
  const joining = new Joining(
    'm',
    resolved,
    { inputs: [value('x')], outputs: [value('y')], properties: null, unservableOutputs: [], executionProviders: [] },
    isProved ? { proof } : {},
  ) // prettier-ignore
  const runTimes = new RunTimes()
  for (let run = 0; run < 20; run++) {
    if (ms64 > 0) runTimes.observe('', 64, ms64)
    runTimes.observe('', 32, 0.1)
  }
  const observed = new ObservedRequests({ name: 'm', version: 1, metadata: joining.stacked, batching: null })
  const scheduler = new Scheduler({
    joining, observed, rowCheck: null, padding: null, costs: null, config: resolved, runTimes, instances: 1,
    clock: new FakeClock(1000), keepAlive: new KeepAlive(), gaveUp: nothing,
  }) // prettier-ignore
  const data = [type === 'string' ? Array<string>(width).fill('') : new Float32Array(width)]
  const feeds = { rows: 1, bucketKey: '', whole: false, data, dims: null }
  const level = scheduler.levels.of(undefined)
  const submit = (count: number) => {
    for (let left = count; left > 0; left--)
      scheduler.submit(new InferRequest(feeds, level, noOptions, nothing, nothing), noOptions)
  }
  /** Rows of the batch that is formed of 300 requests when runs of up to `mostMs` may be inline. */
  const rows = (mostMs: number, besideRows = Infinity): number => {
    submit(300)
    scheduler.chooseRows(mostMs, besideRows, true)
    const batch = scheduler.nextBatch(true, 0)!
    scheduler.rejectWaiting()
    return batch.requests.length
  }
  return { rows, submit, scheduler, joining }
}

/** An instance for the batches of that queue, whose runs a test ends. */
export function instanceOf(scheduler: Scheduler, session: object = {}): ModelInstance {
  const executor = { defineSlot: nothing, defineLayout: nothing }
  const acquire = (byteLength: number) => ({ bytes: new ArrayBuffer(byteLength), byteLength, memory: {} })
  let slots = 0
  const instance = new ModelInstance({
    scheduler,
    name: 'm_0',
    session: {
      id: 1,
      ready: true,
      worker: { offer: nothing, threads: { executor } },
      threadChoice: null,
      halvedOn: null,
      ...session,
    } as never,
    weight: 1,
    source: { nextSlotId: () => slots++, acquire, movesFromBytes: Infinity } as never,
  })
  scheduler.instances.add(instance)
  return instance
}
