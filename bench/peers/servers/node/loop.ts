import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { openLoop } from '../../../programs/open-loop.ts'
import type { Level, LoopInput } from '../../workload.ts'
import { openBackEnd, type BackEnd, type BackEndSettings } from './back-end.ts'
import { LoopRecord } from './loop-record.ts'

// Callers in the process of what answers them.

const { workload, levels, settings } = JSON.parse(process.argv[2]!) as LoopInput & {
  settings: BackEndSettings
}
const bodies = workload.files.map((file) => {
  const bytes = Uint8Array.from(readFileSync(file))
  return workload.jpeg ? bytes : new Float32Array(bytes.buffer)
})
const backEnd = await openBackEnd(workload, settings)
for (const level of levels)
  await (level.callers === undefined ? opened(backEnd, level) : closed(backEnd, level, level.callers))
await backEnd.close()
process.exit() // what was given up may still run

async function closed(
  { infer }: BackEnd,
  { warmupSeconds, warmupRequests, seconds }: Level,
  callers: number,
): Promise<void> {
  const record = new LoopRecord()
  let [sent, stopped] = [0, false]
  const all = Array.from({ length: callers }, async () => {
    while (!stopped) {
      const index = sent++ % bodies.length
      const startedMs = performance.now()
      record.answer(startedMs, index, await infer(bodies[index]!))
    }
  })
  await Promise.race([sleep(warmupSeconds * 1000), ...all])
  while (record.answers < warmupRequests) await Promise.race([sleep(50), ...all])
  await record.nextAnswers()
  record.begin()
  await Promise.race([sleep(seconds * 1000), ...all])
  await record.nextAnswers()
  record.measured()
  stopped = true
  await Promise.all(all)
  record.end()
}

async function opened({ infer }: BackEnd, { warmupSeconds, seconds, arrivals }: Level): Promise<void> {
  const record = new LoopRecord()
  const all: Promise<void>[] = []
  const timesMs = new Float64Array(Uint8Array.from(readFileSync(arrivals!)).buffer)
  const startMs = performance.now()
  const beganMs = startMs + warmupSeconds * 1000
  const endedMs = beganMs + seconds * 1000
  setTimeout(() => record.begin(beganMs), warmupSeconds * 1000)
  const measured = sleep((warmupSeconds + seconds) * 1000).then(() => record.measured(endedMs))
  const ask = async (intendedMs: number): Promise<void> => {
    if (intendedMs >= beganMs) record.ask(intendedMs)
    const index = all.length % bodies.length
    record.answerTo(intendedMs, index, await infer(bodies[index]!))
  }
  await openLoop(timesMs, (intendedMs) => void all.push(ask(intendedMs)), startMs)
  await measured
  await Promise.race([sleep(Math.max(5000, seconds * 1000)), Promise.all(all)])
  record.end()
}
