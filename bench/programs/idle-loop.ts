import { setTimeout as sleep } from 'node:timers/promises'
import { answer, input } from '../child.ts'
import { LoopDelayProbe } from '../loop-delay.ts'

/** A process with nothing to do: what its loop is late by is the machine's doing. */
const { seconds } = input<{ seconds: number }>()
const probe = new LoopDelayProbe()
probe.start()
await sleep(seconds * 1000)
answer(await probe.stop())
