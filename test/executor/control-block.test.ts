import { describe, expect, it } from 'vitest'
import { Bell, ControlBlock } from '../../src/executor/binding/control-block.ts'

const times = () => ({ startMs: 0, inferStartMs: 0, inferEndMs: 0, endMs: 0 })

/** The two ends of one block, as two threads would hold them. */
function pair() {
  const application = new ControlBlock()
  return { application, worker: new ControlBlock(application.buffer) }
}

describe('ControlBlock', () => {
  it('hands submissions over in order, each once', () => {
    const { application, worker } = pair()
    const job = { slotId: 0, layoutIndex: 0 }
    application.submit(7, 1)
    application.submit(8, 2)
    expect([worker.takeSubmission(job), { ...job }]).toEqual([true, { slotId: 7, layoutIndex: 1 }])
    expect([worker.takeSubmission(job), { ...job }]).toEqual([true, { slotId: 8, layoutIndex: 2 }])
    expect(worker.takeSubmission(job)).toBe(false)
  })

  it('keeps slots and times together over many turns of the rings', () => {
    const { application, worker } = pair()
    const job = { slotId: 0, layoutIndex: 0 }
    for (let turn = 1; turn <= 1000; turn++) {
      application.submit(turn, turn * 2)
      expect(worker.takeSubmission(job)).toBe(true)
      expect(job).toEqual({ slotId: turn, layoutIndex: turn * 2 })
      worker.complete(turn, { startMs: turn, inferStartMs: turn + 0.25, inferEndMs: turn + 0.5, endMs: turn + 0.75 })
      const read = times()
      expect(application.takeCompletion(read)).toBe(turn)
      expect(read).toEqual({ startMs: turn, inferStartMs: turn + 0.25, inferEndMs: turn + 0.5, endMs: turn + 0.75 })
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
