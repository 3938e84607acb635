import { describe, expect, it } from 'vitest'
import { House, settled } from '../workers/serving.ts'
import { accumulatorSequence } from './accumulators.ts'
import { ServedSequences } from './served-sequences.ts'

const start = { sequenceStart: true } as const

/** A model on one worker, over whose run that can be killed. */
async function served(sequence: object, more: Record<string, Float32Array> = {}) {
  const house = await House.open(1)
  const model = await ServedSequences.on(house, {
    maxBatchSize: 4,
    sequence: { maxSequenceIdleMs: 100_000, ...sequence },
  })
  const { threads } = house.places[0]!
  const told: Record<string, unknown> = {}
  const send = (name: string, options = {}) => {
    const [letter, number] = [name.charCodeAt(0), Number(name.slice(1))]
    model.infer(number, { sequenceId: letter, ...options }, more).then(
      ({ outputs }) => void (told[name] = (outputs['sum']!.data as Float32Array)[0]),
      (error: { code?: string }) => void (told[name] = error.code),
    )
  }
  const turn = async (act: () => void) => {
    await settled()
    act()
    await settled()
    house.clock.advanceBy(5000) // longer than another thread is put off
    await settled()
  }
  return {
    model,
    told,
    send,
    finish: () => turn(() => threads.current.finish()),
    die: () => turn(() => threads.current.die()),
    claim: () => turn(() => threads.current.claim()),
  }
}

describe("a worker's death", () => {
  it('has the requests of sequences with a state run again from the one before, each alone, and the sequences go on', async () => {
    const { told, send, finish, claim, die, model } = await served(accumulatorSequence)
    for (const name of ['A1', 'B10']) send(name, start)
    await finish()
    for (const name of ['A2', 'B20', 'A3']) send(name)
    await claim()
    await die()
    for (let run = 0; run < 4; run++) await finish()
    expect(told).toEqual({ A1: 1, B10: 10, A2: 3, B20: 30, A3: 6 })
    expect(model.runs.map((rows) => rows.length)).toEqual([2, 1, 1, 1])
  })
  it('twice over the same request rejects that, and the sequence goes on without it', async () => {
    const { told, send, finish, claim, die } = await served(accumulatorSequence)
    send('A1', start)
    await finish()
    for (const name of ['A2', 'A3']) send(name)
    for (let deaths = 0; deaths < 2; deaths++) {
      await claim()
      await die()
    }
    await finish()
    expect(told).toEqual({ A1: 1, A2: 'ERR_INSTANCE_CRASHED', A3: 4 })
  })
  it('ends the sequences of a run where what the model kept of them is gone, and no others', async () => {
    const { told, send, finish, claim, die, model } = await served(
      { controls: accumulatorSequence.controls },
      { before: Float32Array.of(100) },
    )
    for (const name of ['A1', 'B1']) send(name, start)
    await finish()
    for (const name of ['A2', 'A3']) send(name)
    await claim()
    await die()
    send('A4')
    send('B2')
    await finish()
    send('A5', start)
    await finish()
    expect(told).toEqual({
      A1: 1,
      B1: 1,
      A2: 'ERR_INSTANCE_CRASHED',
      A3: 'ERR_SEQUENCE_ENDED',
      A4: 'ERR_SEQUENCE_ENDED',
      B2: 102,
      A5: 5,
    })
    expect(model.over).toEqual([
      {
        type: 'evicted',
        sequenceId: 65,
        reason:
          "Sequence 65 of model 'm' ended with the worker that ran one of its requests; begin it again.",
      },
    ])
  })
  it('is survived by an end that was called for', async () => {
    const { told, send, finish, claim, die, model } = await served(accumulatorSequence)
    send('A1', start)
    send('A2', { sequenceEnd: true })
    await claim()
    await die()
    for (let run = 0; run < 3; run++) await finish()
    expect(told).toEqual({ A1: 1, A2: 3 })
    expect([model.sequences.size, model.stateBytes]).toEqual([0, 0])
  })
})
