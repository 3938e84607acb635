import { EventEmitter } from 'node:events'
import type { ServerResponse } from 'node:http'
import { describe, expect, it, vi } from 'vitest'
import { LiveFeed } from '../../src/adapters/inspector/live-feed.ts'
import { FakeClock } from '../fake-clock.ts'
import { frameOf } from './fake-frames.ts'

/** A response to a client that takes what it is sent, until it is told not to. */
class FakeResponse extends EventEmitter {
  readonly written: string[] = []
  readonly req = { socket: new EventEmitter() }
  destroyed = false
  takes = true
  ended = false

  flushHeaders(): void {}

  write(text: string): boolean {
    this.written.push(text)
    return this.takes
  }

  end(): void {
    this.ended = true
    this.destroy()
  }

  destroy(): void {
    this.emit('close')
  }
}

function feedOf(next = () => frameOf(0, [])) {
  const clock = new FakeClock()
  const frames = { begin: vi.fn(), end: vi.fn(), next: vi.fn(next) }
  const feed = new LiveFeed(frames, clock, 1000, 2)
  const connect = (response = new FakeResponse()) => {
    feed.add(response as unknown as ServerResponse)
    return response
  }
  return { clock, frames, feed, connect }
}

describe('the feed of an inspector', () => {
  it('has a timer and looks on only while somebody is there', () => {
    const { clock, frames, connect } = feedOf()
    expect(clock.timers).toBe(0)
    const one = connect()
    const other = connect()
    clock.advanceBy(3000)
    expect({
      timers: clock.timers,
      looks: frames.next.mock.calls.length,
      begun: frames.begin.mock.calls.length,
    }).toEqual({ timers: 1, looks: 4, begun: 1 })
    one.destroy()
    clock.advanceBy(1000)
    expect(other.written).toHaveLength(5)
    expect(one.written).toHaveLength(4)
    other.destroy()
    expect({ timers: clock.timers, ended: frames.end.mock.calls.length }).toEqual({ timers: 0, ended: 1 })
    connect()
    expect(frames.begin).toHaveBeenCalledTimes(2)
  })

  it('leaves out a client that is slow, and tells it again when it has taken what it was sent', () => {
    const { clock, connect } = feedOf()
    const slow = connect()
    const quick = connect()
    slow.takes = false
    clock.advanceBy(1000) // which it takes in, but no more
    clock.advanceBy(5000)
    expect([slow.written.length, quick.written.length]).toEqual([2, 7])
    slow.takes = true
    slow.emit('drain')
    clock.advanceBy(1000)
    expect([slow.written.length, quick.written.length]).toEqual([3, 8])
  })

  it('gives up a client that takes nothing for 30 frames', () => {
    const { clock, feed, connect } = feedOf()
    const dead = connect()
    connect()
    dead.takes = false
    clock.advanceBy(30_000)
    expect(feed.isFull).toBe(true)
    clock.advanceBy(1000)
    expect({ full: feed.isFull, written: dead.written.length }).toEqual({ full: false, written: 2 })
  })

  it('ends a client that takes nothing at once, and lets another take what it was sent', () => {
    const { clock, feed, connect } = feedOf()
    const slow = connect()
    const quick = connect()
    slow.takes = false
    clock.advanceBy(1000)
    feed.close()
    expect([slow.ended, quick.ended, clock.timers]).toEqual([false, true, 0])
  })

  it('costs nobody anything where its engine cannot be looked at: a warning, and it ends', () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const { clock, connect } = feedOf(() => {
      throw new Error('no statistics')
    })
    const one = connect()
    expect({ ended: one.ended, timers: clock.timers }).toEqual({ ended: true, timers: 0 })
    expect(warned).toHaveBeenCalledExactlyOnceWith(
      expect.stringContaining('no statistics'),
      expect.objectContaining({ code: 'ZEROHOP_INSPECTOR' }),
    )
    warned.mockRestore()
  })
})
