import { VirtualClock } from '../../packages/perf/src/simulation/virtual-clock.ts'
import { Autoscaler, type Autoscaled, type AutoscaleLimits } from '../../src/models/scaling/autoscaler.ts'

/** How requests come, and what they take. */
export interface Load {
  readonly runMs: number
  /** From each time on so many requests come, as many as so many instances can do. */
  readonly steps: readonly { readonly fromMs: number; readonly instances: number }[]
  readonly untilMs: number
  /** What it takes to open an instance. */
  readonly openMs: number
  readonly seed: number
}

/** What became of it. */
export interface Followed {
  /** How many instances there were from when on. */
  readonly counts: readonly { readonly atMs: number; readonly count: number }[]
  readonly answered: number
  readonly sent: number
  /** Times that the count went the other way than before. */
  readonly turns: number
  /** What the last request of each second had waited. */
  readonly waitedMs: readonly { readonly atMs: number; readonly ms: number }[]
  /** Timers left when all is over and the clock has come to its end. */
  readonly left: boolean
}

interface Simulated {
  busy: boolean
  idleSinceMs: number
  ranMs: number
}

/** Requests that come at random, a queue, instances that take them first come first served, and the autoscaler over them. */
export async function follow(
  limits: AutoscaleLimits,
  { runMs, steps, untilMs, openMs, seed }: Load,
): Promise<Followed> {
  const clock = new VirtualClock()
  const random = generator(seed)
  let instances: Simulated[] = Array.from({ length: limits.minInstances }, () => ({
    busy: false,
    idleSinceMs: 0,
    ranMs: 0,
  }))
  const queue: number[] = []
  const counts = [{ atMs: 0, count: instances.length }]
  const waitedMs: { atMs: number; ms: number }[] = []
  let [sent, answered, changing] = [0, 0, false]

  const start = (): void => {
    for (const instance of instances) {
      if (instance.busy || queue.length === 0) continue
      const cameAtMs = queue.shift()!
      waitedMs.push({ atMs: clock.nowMs(), ms: clock.nowMs() - cameAtMs })
      instance.busy = true
      const tookMs = runMs * (0.8 + 0.4 * random())
      clock.setTimer(() => {
        instance.busy = false
        instance.ranMs += tookMs
        instance.idleSinceMs = clock.nowMs()
        answered++
        start()
        autoscaler.look()
      }, tookMs)
    }
  }
  const target: Autoscaled = {
    get changing() {
      return changing
    },
    get anyIdle() {
      return instances.some(({ busy }) => !busy)
    },
    get oldestAtMs() {
      return queue[0] ?? Infinity
    },
    usesOf: () =>
      instances.map(({ busy, idleSinceMs, ranMs }) => ({
        idleSinceMs: busy ? null : idleSinceMs,
        busyMs: ranMs,
      })),
    resize: (_, count) => {
      changing = true
      return new Promise((resolve) => {
        clock.setTimer(() => {
          if (count > instances.length) instances.push({ busy: false, idleSinceMs: clock.nowMs(), ranMs: 0 })
          else {
            const idle = instances.findLast(({ busy }) => !busy) ?? instances.at(-1)!
            instances = instances.filter((other) => other !== idle) // its run goes on
          }
          counts.push({ atMs: clock.nowMs(), count: instances.length })
          changing = false
          start()
          resolve()
        }, openMs)
      })
    },
  }
  const autoscaler: Autoscaler = new Autoscaler([{ number: 0, limits }], target, clock, (error) => {
    throw error
  })
  const arrive = (): void => {
    const nowMs = clock.nowMs()
    if (nowMs >= untilMs) return
    const rate = (steps.findLast(({ fromMs }) => fromMs <= nowMs)?.instances ?? 0) / runMs
    const next = steps.find(({ fromMs }) => fromMs > nowMs)?.fromMs ?? untilMs
    const inMs = rate === 0 ? Infinity : -Math.log(1 - random()) / rate
    // Arrivals without memory: what would come after a step is drawn anew at its rate.
    if (nowMs + inMs >= next) return void clock.setTimer(arrive, next - nowMs)
    clock.setTimer(() => {
      queue.push(clock.nowMs())
      sent++
      start()
      autoscaler.look()
      arrive()
    }, inMs)
  }
  arrive()
  while (clock.nextMs < 10 * untilMs) {
    clock.fireNext()
    for (let turn = 0; turn < 6; turn++) await Promise.resolve() // what a change resolves
  }
  autoscaler.close()
  return {
    counts,
    answered,
    sent,
    turns: turnsOf(counts.map(({ count }) => count)),
    waitedMs,
    left: clock.nextMs !== Infinity,
  }
}

function turnsOf(counts: readonly number[]): number {
  const directions = counts.slice(1).map((count, index) => Math.sign(count - counts[index]!))
  return directions.slice(1).filter((direction, index) => direction !== directions[index]).length
}

function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return (state >>> 0) / 2 ** 32
  }
}
