import { InferenceError, type InferOptions, type ModelOptions } from '../../src/index.ts'
import { mulberry32 } from '../models/random.ts'
import { House, settled } from '../workers/serving.ts'
import { accumulatorSequence } from './accumulators.ts'
import { ServedSequences } from './served-sequences.ts'

/** What is known of one id from outside. */
interface Known {
  /** Counts its beginnings. */
  epoch: number
  /** Calls so far. */
  calls: number
  /** The last of them that was answered. */
  answered: number
  /** Of which beginning the last answer was, and its sum. */
  answeredEpoch: number
  sum: number
  /** Whether its end was called for. */
  closed: boolean
  /** The same, or it has ended by itself. */
  over: boolean
  refusedAtMs: number
  underWay: number
  usedAtMs: number
}

/** How often each thing happened. */
export interface Account {
  answered: number
  aborted: number
  timedOut: number
  ended: number
  crashed: number
  failed: number
  deaths: number
  runs: number
  joined: number
}

const maxIdleMs = 60
const callsPerRound = 200

/**
 * Random calls of many sequences on a clock of the test's own, between which runs end, time passes and workers die; throws at
 * the first answer that is not what its sequence has to give.
 */
export async function randomSteps(
  seed: number,
  steps: number,
  sequences: number,
  sequence: ModelOptions['sequence'],
): Promise<Account> {
  const random = mulberry32(seed)
  const upTo = (count: number) => Math.floor(random() * count)
  const house = await House.open(2)
  const model = await ServedSequences.on(house, {
    maxBatchSize: 64,
    sequence: { ...accumulatorSequence, maxSequenceIdleMs: maxIdleMs, ...sequence },
  })
  const { clock, places } = house
  const account: Account = {
    answered: 0,
    aborted: 0,
    timedOut: 0,
    ended: 0,
    crashed: 0,
    failed: 0,
    deaths: 0,
    runs: 0,
    joined: 0,
  }
  const known = Array.from({ length: sequences }, (): Known => ({
    epoch: 0,
    calls: 0,
    answered: -1,
    answeredEpoch: -1,
    sum: 0,
    closed: true,
    over: true,
    refusedAtMs: -1,
    underWay: 0,
    usedAtMs: 0,
  }))
  const wrong: string[] = []

  const call = (): void => {
    const id = 1 + upTo(sequences)
    const own = known[id - 1]!
    const start = own.over ? random() < 0.9 : random() < 0.02
    const end = random() < 0.08
    const x = 1 + upTo(7)
    const aborts = random() < 0.03 ? new AbortController() : null
    const options: InferOptions = {
      sequenceId: id,
      ...(start && { sequenceStart: true }),
      ...(end && { sequenceEnd: true }),
      ...(random() < 0.05 && { timeoutMs: 1 + upTo(20) }),
      ...(aborts !== null && { signal: aborts.signal }),
    }
    const [wasOver, wasClosed] = [own.over && !start, own.closed && !start]
    if (start) {
      own.epoch++
      own.over = own.closed = false
    }
    const { epoch } = own
    const number = own.calls++
    if (end) own.over = own.closed = true
    const idleMs = own.underWay === 0 ? clock.nowMs() - own.usedAtMs : 0
    own.underWay++
    const settle = () => {
      own.underWay--
      own.usedAtMs = clock.nowMs()
    }
    model.infer(x, options).then(
      ({ outputs }) => {
        settle()
        account.answered++
        const sum = (outputs['sum']!.data as Float32Array)[0]!
        const expected = (own.answeredEpoch === epoch ? own.sum : 0) + x
        if (sum !== expected || Number((outputs['id']!.data as BigUint64Array)[0]) !== id)
          wrong.push(`sequence ${id}, call ${number}: ${sum} for ${expected}`)
        if (number <= own.answered || epoch < own.answeredEpoch)
          wrong.push(`sequence ${id}: call ${number} is answered after call ${own.answered}`)
        if (wasClosed) wrong.push(`sequence ${id}: call ${number} is answered though it had ended`)
        own.answered = number
        own.answeredEpoch = epoch
        own.sum = sum
      },
      (error: unknown) => {
        settle()
        if (!(error instanceof InferenceError)) return void account.aborted++
        if (error.code === 'ERR_TIMEOUT') {
          account.timedOut++
          if (own.epoch === epoch && sequence?.oldest?.maxCandidateSequences !== undefined) own.over = true // it may have been all of it
        } else if (error.code === 'ERR_INSTANCE_CRASHED') account.crashed++
        else if (error.code === 'ERR_EXECUTION') account.failed++
        else if (error.code !== 'ERR_SEQUENCE_ENDED') wrong.push(`sequence ${id}: ${error.message}`)
        else {
          account.ended++
          const nowMs = clock.nowMs()
          if (start || (!wasOver && idleMs < maxIdleMs && own.refusedAtMs !== nowMs && !mayExpire))
            wrong.push(`sequence ${id}: call ${number} is refused after ${idleMs} ms`)
          own.refusedAtMs = nowMs
          if (own.epoch === epoch) own.over = true
        }
      },
    )
    if (aborts !== null && random() < 0.5) aborts.abort()
    else if (aborts !== null) abortLater.push(aborts)
  }
  const mayExpire = sequence?.direct !== undefined || sequence?.oldest?.maxCandidateSequences !== undefined
  let abortLater: AbortController[] = []
  let deadly = true

  for (let done = 0; done < steps; done += callsPerRound) {
    for (let count = 0; count < callsPerRound; count++) call()
    await settled()
    for (const aborts of abortLater.splice(0)) aborts.abort()
    for (const { threads } of places) {
      for (let count = upTo(8); count > 0; count--)
        if (threads.current.finish(random() < 0.01 ? 'it failed' : null)) deadly = true
    }
    if (deadly && random() < 0.05) {
      deadly = false // several in a row would be the model's own doing
      account.deaths++
      places[upTo(2)]!.threads.current.die('it died', random() < 0.5)
    }
    await settled()
    clock.advanceBy(random() < 0.02 ? maxIdleMs * 2 : 1 + upTo(3))
    if (wrong.length > 0) throw new Error(wrong.slice(0, 5).join('\n'))
    if (model.failure !== null) throw new Error(model.failure)
    abortLater = []
    account.runs += model.runs.length
    for (const rows of model.runs.splice(0)) {
      const ids = rows.filter(({ id }) => id !== 0).map(({ id }) => id)
      if (ids.length > 1) account.joined++
      if (new Set(ids).size !== ids.length)
        throw new Error(`a run has two requests of one sequence: ${ids.join(' ')}`)
    }
  }
  model.sequences.drain()
  for (let turn = 0; turn < 100_000 && model.scheduler.waiting + model.scheduler.running > 0; turn++) {
    await settled()
    for (const { threads } of places) threads.current.finish()
    clock.advanceBy(10)
  }
  await settled()
  const left = known.reduce((sum, { underWay }) => sum + underWay, 0)
  if (left > 0) throw new Error(`${left} calls are not settled, ${model.scheduler.waiting} wait`)
  model.sequences.close()
  if (model.sequences.size > 0 || house.keepAlive.holds > 0) throw new Error('sequences are left')
  if (model.stateBytes > 0) throw new Error(`${model.stateBytes} bytes of states are left`)
  if (wrong.length > 0) throw new Error(wrong.slice(0, 5).join('\n'))
  return account
}
