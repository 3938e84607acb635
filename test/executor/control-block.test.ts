import { describe, expect, it } from 'vitest'
import { Bell, ControlBlock } from '../../src/run/executors/binding/control-block.ts'

const times = () => ({ startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 })

/** The two ends of one block, as two threads would hold them. */
function pair() {
  const application = new ControlBlock()
  return { application, worker: new ControlBlock(application.buffer) }
}

describe('ControlBlock', () => {
  it('hands batches over in order, each once', () => {
    const { application, worker } = pair()
    const job = { cell: 0, slotId: 0, layoutIndex: 0 }
    application.submit(7, 1)
    application.submit(8, 2)
    expect(worker.claim(job)).toBe(true)
    expect(job).toMatchObject({ slotId: 7, layoutIndex: 1 })
    expect(worker.claim(job)).toBe(true)
    expect(job).toMatchObject({ slotId: 8, layoutIndex: 2 })
    expect(worker.claim(job)).toBe(false)
  })

  it('keeps their order whichever cells they lie in', () => {
    const { application, worker } = pair()
    const [first, second] = [0, 1].map(() => ({ cell: 0, slotId: 0, layoutIndex: 0 }))
    application.submit(1, 0)
    application.submit(2, 0)
    worker.claim(first!)
    worker.complete(first!, times())
    application.submit(3, 0)
    worker.claim(first!)
    worker.claim(second!)
    expect([first!.slotId, second!.slotId]).toEqual([2, 3])
  })

  it('gives a batch back until the worker has claimed it, and not after', () => {
    const { application, worker } = pair()
    const job = { cell: 0, slotId: 0, layoutIndex: 0 }
    application.submit(7, 1)
    application.submit(8, 2)
    worker.claim(job)
    expect(application.revoke(7)).toBe(false)
    expect(application.revoke(8)).toBe(true)
    expect(application.revoke(8)).toBe(false)
    expect(worker.claim(job)).toBe(false)
    application.submit(8, 3)
    expect(worker.claim(job)).toBe(true)
    expect(job).toMatchObject({ slotId: 8, layoutIndex: 3 })
  })

  it('gives the cell of a batch that was reported by message to the next', () => {
    const { application, worker } = pair()
    const job = { cell: 0, slotId: 0, layoutIndex: 0 }
    for (let turn = 1; turn <= 10; turn++) {
      application.submit(turn, 0)
      expect(worker.claim(job)).toBe(true)
      expect(job.slotId).toBe(turn)
      worker.release(job)
    }
  })

  it('keeps slots and times together over many turns of the ring', () => {
    const { application, worker } = pair()
    const job = { cell: 0, slotId: 0, layoutIndex: 0 }
    for (let turn = 1; turn <= 1000; turn++) {
      application.submit(turn, turn * 2)
      expect(worker.claim(job)).toBe(true)
      expect(job).toMatchObject({ slotId: turn, layoutIndex: turn * 2 })
      worker.complete(job, {
        startMs: turn,
        inferStartMs: turn + 0.25,
        inferEndMs: turn + 0.5,
        endMs: turn + 0.75,
      })
      const read = times()
      expect(application.takeCompletion(read)).toBe(turn)
      expect(read).toEqual({
        startMs: turn,
        inferStartMs: turn + 0.25,
        inferEndMs: turn + 0.5,
        endMs: turn + 0.75,
      })
      expect(application.takeCompletion(read)).toBe(-1)
    }
  })

  it('tells of mail once however much was posted', () => {
    const { application, worker } = pair()
    expect(worker.takeMail()).toBe(false)
    application.announceMail()
    application.announceMail()
    expect(worker.takeMail()).toBe(true)
    expect(worker.takeMail()).toBe(false)
  })

  it('does not sleep when the bell has rung since it was looked at', () => {
    const { application, worker } = pair()
    const { wakeCount } = worker
    application.submit(1, 1)
    expect(worker.sleep(wakeCount)).toBeUndefined()
  })

  it('wakes a sleeper', async () => {
    const { application, worker } = pair()
    const sleeping = worker.sleep(worker.wakeCount)
    application.wake()
    await expect(sleeping).resolves.toBe('ok')
  })

  it('lets nobody into ONNX Runtime once it was stopped', () => {
    const { application, worker } = pair()
    expect(worker.enter()).toBe(true)
    expect(application.busy).toBe(true)
    worker.leave()
    application.stop()
    expect(worker.enter()).toBe(false)
    expect(application.busy).toBe(false)
  })

  it('waits for a run that was under way when it was stopped, and no longer than the limit', async () => {
    const { application, worker } = pair()
    worker.enter()
    application.stop()
    expect(application.waitUntilNotBusy(1)).toBe(false)
    const left = application.left()
    worker.leave()
    await left
    expect(application.waitUntilNotBusy(1)).toBe(true)
  })
})

describe('Bell', () => {
  it('is heard by who listens and by who looked before it rang', async () => {
    const bell = new Bell()
    const { count } = bell
    const heard = bell.heard(count)
    new Bell(bell.buffer).ring()
    await expect(heard).resolves.toBe('ok')
    expect(bell.heard(count)).toBeUndefined()
  })
})
