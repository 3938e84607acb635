import { Duplex } from 'node:stream'
import type { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import type { NativeProcesses } from '../../src/native/native-binding.ts'
import { Connection, type ConnectionOwner } from '../../src/adapters/processes/connection.ts'
import { frameKinds, frameOf } from '../../src/adapters/processes/messages.ts'
import { areaBytes, RingReader, RingWriter, SharedRings } from '../../src/adapters/processes/shared-rings.ts'
import { RecordViews, RecordWriter } from '../../src/adapters/processes/records.ts'

const ringBytes = 2 ** 20

/** One end of a connection whose owner notes the numbers of records, and accepts as many as it is told to. */
function end() {
  const views = new RecordViews(new ArrayBuffer(areaBytes(ringBytes)))
  const bell = { ring: () => {}, ref: () => {}, unref: () => {}, close: () => {} }
  const rings = {
    reader: new RingReader(views, ringBytes, 0),
    writer: new RingWriter(views, ringBytes, 1),
    views,
    bell,
    release: () => {},
  } as unknown as SharedRings
  const socket = new Duplex({
    read: () => {},
    write: (_chunk, _encoding, done) => done(),
  }) as unknown as Socket
  const state = { left: 0, numbers: [] as number[], closed: null as string | null }
  const owner: ConnectionOwner = {
    onFrame: () => {},
    takesFrames: () => true,
    accepts: () => state.left > 0,
    onRecord: (record) => {
      state.left--
      state.numbers.push(record.number())
      return undefined
    },
    onClose: (reason) => void (state.closed = reason),
  }
  const connection = new Connection(socket, owner)
  connection.open(100_000, rings)
  return { state, socket, connection, peer: new RingWriter(views, ringBytes, 0) }
}

function numbered(number: number, bytes = 0): RecordWriter {
  const record = new RecordWriter()
  record.begin()
  record.number(number)
  if (bytes > 0) record.elements(new Uint8Array(bytes), 'Uint8Array')
  return record
}

function framed(number: number, bytes = 0): Buffer {
  const record = numbered(number, bytes)
  const frame = frameOf(frameKinds.record, record.byteLength)
  record.copyTo(new RecordViews(frame.buffer as ArrayBuffer), 8)
  return frame
}

describe('records that come by both ways', () => {
  it('are read in the order in which they were written, however late they are accepted', () => {
    const { state, connection, peer } = end()
    for (const number of [1, 2, 3]) peer.write(numbered(number))
    for (const number of [4, 5]) connection.push(framed(number))
    expect(state.numbers).toEqual([])
    for (let turn = 0; turn < 5; turn++) {
      state.left = 1
      connection.read()
    }
    expect(state.numbers).toEqual([1, 2, 3, 4, 5])
  })

  it('are read in that order when there are more of them than one turn of the event loop has time for', async () => {
    const { state, connection, peer } = end()
    for (let number = 0; number < 5000; number++) expect(peer.write(numbered(number))).toBe(true)
    state.left = Infinity
    connection.push(framed(5000))
    while (state.numbers.length <= 5000) await new Promise(setImmediate)
    expect(state.numbers).toEqual(Array.from({ length: 5001 }, (_, number) => number))
  })

  it('wait in the memory of who sends them once they are many, or have many bytes', () => {
    for (const [count, bytes] of [
      [65, 0],
      [3, 40_000],
    ] as const) {
      const { state, socket, connection } = end()
      socket.resume()
      for (let number = 1; number < count; number++) connection.push(framed(number, bytes))
      expect(socket.isPaused()).toBe(false)
      connection.push(framed(count, bytes))
      expect(socket.isPaused()).toBe(true)
      state.left = Infinity
      connection.read()
      expect([socket.isPaused(), state.numbers.length]).toEqual([false, count])
    }
  })
})

describe('memory that is to be shared', () => {
  /** What the addon gives, until `failing` is asked for. */
  function processes(failing: string) {
    const open = new Set<number>()
    let last = 2
    const descriptor = () => {
      open.add(++last)
      return last
    }
    const made = <T>(what: string, value: () => T): T => {
      if (what === failing) throw new Error(`no ${what}`)
      return value()
    }
    let areas = 0
    const area = (bytes: number) => (areas++, new ArrayBuffer(bytes))
    const fake = {
      createArea: (bytes: number) => ({ descriptor: descriptor(), bytes: area(bytes) }),
      openArea: (_descriptor: number, bytes: number) => made('area', () => area(bytes)),
      releaseArea: () => areas--,
      socketPair: () => made('sockets', () => [descriptor(), descriptor()]),
      close: (each: number) => void expect(open.delete(each)).toBe(true),
      Bell: class {
        constructor() {
          made('bell', () => null)
        }
      },
    }
    return { fake: fake as unknown as NativeProcesses, open, descriptor, areas: () => areas }
  }

  it.each(['sockets', 'bell'])('leaves nothing open where the system has no %s for it', (failing) => {
    const { fake, open, areas } = processes(failing)
    expect(() => SharedRings.make(fake, ringBytes, () => {})).toThrow(`no ${failing}`)
    expect([open.size, areas()]).toEqual([0, 0])
  })

  it.each(['area', 'bell'])(
    'leaves nothing of what was handed over open where there is no %s for it',
    (failing) => {
      const { fake, open, descriptor, areas } = processes(failing)
      expect(() =>
        SharedRings.take(fake, { area: descriptor(), bell: descriptor() }, ringBytes, () => {}),
      ).toThrow(`no ${failing}`)
      expect([open.size, areas()]).toEqual([0, 0])
    },
  )

  it.each([0, 100, 3 * 4096, NaN])('is refused with rings of %d bytes, and let go of', (bytes) => {
    const { fake, open, descriptor } = processes('')
    expect(() => SharedRings.take(fake, { area: descriptor(), bell: descriptor() }, bytes, () => {})).toThrow(
      'power of two',
    )
    expect(open.size).toBe(0)
  })
})
