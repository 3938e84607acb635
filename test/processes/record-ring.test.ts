import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BadRecord, RecordReader, RecordViews, RecordWriter } from '../../src/adapters/processes/records.ts'
import { areaBytes, RingReader, RingWriter } from '../../src/adapters/processes/shared-rings.ts'
import { repetitions } from '../support/full.ts'

const ringBytes = 2 ** 20

function ring() {
  const views = new RecordViews(new ArrayBuffer(areaBytes(ringBytes)))
  return { views, writer: new RingWriter(views, ringBytes, 0), reader: new RingReader(views, ringBytes, 0) }
}

function filled(bytes: number, value: number): RecordWriter {
  const record = new RecordWriter()
  record.begin()
  record.elements(new Uint8Array(bytes).fill(value), 'Uint8Array')
  return record
}

function read({ reader, views }: ReturnType<typeof ring>): Uint8Array | null {
  const bytes = reader.next()
  if (bytes === -1) return null
  const elements = new RecordReader(views, reader.place, bytes).elements() as Uint8Array
  reader.done()
  return elements
}

describe('a ring of records', () => {
  it('gives what was put in, in its order, whatever the sizes and however far the reader is behind', () => {
    const steps = fc.array(
      fc.oneof(fc.integer({ min: 0, max: ringBytes / 2 - 100 }), fc.constantFrom('read', 'read all')),
      { maxLength: 60 },
    )
    fc.assert(
      fc.property(steps, (all) => {
        const one = ring()
        const expected: [number, number][] = []
        let count = 0
        const take = () => {
          const found = read(one)
          const next = expected.shift()
          expect(found === null ? undefined : [found.length, found[0]]).toEqual(next)
          return next !== undefined
        }
        for (const step of all) {
          if (step === 'read') take()
          else if (step === 'read all') while (take());
          else if (one.writer.write(filled(step as number, ++count % 256)))
            expected.push([step as number, step === 0 ? (undefined as never) : count % 256])
          else expect(expected.length).toBeGreaterThan(0) // an empty one has room
        }
        while (take());
      }),
      { numRuns: repetitions(200, 50) },
    )
  })

  it('goes on where its count of bytes has gone past 2^32', () => {
    const one = ring()
    // Past the middle of the ring, so that each write but a few goes on at the beginning: 2^32 bytes in some thousand steps.
    const bytes = ringBytes / 2 - 64
    const record = filled(bytes, 7)
    const ofThem = new Uint8Array(bytes).fill(7)
    for (let count = 0; count < 9000; count++) {
      record.begin()
      record.elements(ofThem, 'Uint8Array')
      if (!one.writer.write(record)) throw new Error('no room')
      if (one.reader.next() !== record.byteLength) throw new Error('another record')
      one.reader.done()
    }
    expect(read(one)).toBeNull()
  })

  it('uses its first bytes again once it is empty, and touches no more than it needs', () => {
    const one = ring()
    for (let count = 0; count < 1000; count++) {
      one.writer.write(filled(1000, 1))
      read(one)
    }
    const touched = one.views.bytes.subarray(4096, 4096 + ringBytes).findLastIndex((byte) => byte !== 0)
    expect(touched).toBeLessThan(2 ** 18 + 4096)
  })

  it('wakes a reader that sleeps, once', () => {
    const { writer, reader } = ring()
    expect(writer.wakes()).toBe(false)
    reader.sleep()
    expect([writer.wakes(), writer.wakes()]).toEqual([true, false])
  })

  it('whose words are anything is a bad record to its reader, and to its writer', () => {
    const values = fc.array(fc.tuple(fc.constantFrom(0, 16, 32, 1024, 1025, 1026), fc.integer()), {
      minLength: 1,
      maxLength: 5,
    })
    fc.assert(
      fc.property(values, (all) => {
        const one = ring()
        one.writer.write(filled(100, 1))
        one.writer.write(filled(100, 2))
        for (const [word, value] of all) one.views.words[word] = value
        try {
          for (let count = 0; count < 10; count++) {
            if (read(one) === null) break
            one.writer.write(filled(1000, 3))
          }
        } catch (error) {
          expect(error).toBeInstanceOf(BadRecord)
        }
      }),
      { numRuns: repetitions(2000, 200) },
    )
  })
})
