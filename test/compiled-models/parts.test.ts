import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { answersAlike } from '../../src/models/compiled-models/compiled-form.ts'
import { EntryLock, hasEnded, ownIdentity, Turns } from '../../src/models/compiled-models/entry-lock.ts'
import {
  ExternalFiles,
  hashOfBytes,
  hashOfFile,
  TooManyFiles,
} from '../../src/models/compiled-models/model-content.ts'
import { readSealed, writeSealed } from '../../src/models/compiled-models/cache-folder.ts'
import { ownFolder } from './cached.ts'
import { perceptronOutside } from './models.ts'
import { canMount, mounted } from './mounts.ts'

const never = new AbortController().signal

/** The identity of a process that has ended. */
async function endedIdentity(): Promise<string> {
  const child = spawn(process.execPath, ['-e', ''], { stdio: 'ignore' })
  const { pid } = child
  await once(child, 'exit')
  const [place, , start] = ownIdentity().split('.')
  return `${place}.${pid}.${start}`
}

describe('a compiled form', () => {
  it('answers alike in all sessions, unless it sums over trees or counts its random numbers', () => {
    const graph = join(ownFolder(), 'model.onnx')
    for (const [names, expected] of [
      ['MatMul Relu Softmax', true],
      ['MatMul TreeEnsembleRegressor', false],
      ['RandomUniformLike', false],
    ] as const) {
      writeFileSync(graph, names)
      expect(answersAlike(graph)).toBe(expected)
    }
    expect(answersAlike(`${graph}.none`)).toBe(false)
  })
})

describe('the files of weights beside a model', () => {
  const model = readFileSync(perceptronOutside())
  const name = /cached-perceptron-outside-1\.bin/.exec(model.toString('latin1'))![0]

  it('are found by their names, wherever these are cut in two by the pieces in which it is read', () => {
    const step = 8192
    const nameAt = model.indexOf('location')
    for (let before = step - nameAt - 60; before < step - nameAt + 5; before++) {
      const bytes = Buffer.concat([Buffer.alloc(before), model, Buffer.alloc(step)])
      const found = new ExternalFiles()
      for (let at = 0; at < bytes.length; at += step) found.look(bytes.subarray(at, at + step))
      expect(found.in('/models')).toEqual([`/models/${name}`])
    }
  })

  it.each([
    ['by what stands before a NUL character', '\x0a\x08location\x12\x07w.bin\0x'],
    [
      'when the length of their name is written in more bytes than it needs',
      '\x0a\x08location\x12\x85\x80\x00w.bin',
    ],
  ])('are found %s', (_, entry) => {
    const found = new ExternalFiles()
    found.look(Buffer.from(entry, 'latin1'))
    expect(found.in('/models')).toEqual(['/models/w.bin'])
  })

  it('are not looked for elsewhere', () => {
    const found = new ExternalFiles()
    const entry = (name: string) =>
      Buffer.concat([
        Buffer.from('\x0a\x08location\x12', 'latin1'),
        Buffer.from([name.length]),
        Buffer.from(name),
      ])
    for (const name of ['/etc/passwd', '../secret', 'a/../../secret', '', 'deeper/weights', '..weights'])
      found.look(entry(name))
    expect(found.in('/models')).toEqual(['/models/..weights', '/models/deeper/weights'])
  })

  it.each([7, 100, 300])(
    'are found when the fields of their entries are in the other order (names of %i letters)',
    (length) => {
      const name = 'w'.repeat(length)
      const told = length < 0x80 ? [length] : [(length & 0x7f) | 0x80, length >> 7]
      const bytes = Buffer.concat([
        Buffer.from([0x6a, 0x20, 0x12, ...told]),
        Buffer.from(`${name}\x0a\x08location\x70\x01`, 'latin1'),
      ])
      for (const cut of [bytes.length, 6, bytes.length - 4]) {
        const found = new ExternalFiles()
        for (const piece of [bytes.subarray(0, cut), bytes.subarray(cut)]) found.look(piece)
        expect(found.in('/models')).toContain(`/models/${name}`)
      }
    },
  )
})

describe('a file that names more others than there can be', () => {
  const key = Buffer.from('\x0a\x08location', 'latin1')
  const lengthOf = (length: number) => Buffer.from([0x12, (length & 0x7f) | 0x80, length >> 7])

  it.each([
    [
      'names',
      (index: number) => Buffer.concat([key, lengthOf(200), Buffer.from(String(index).padEnd(200, 'w'))]),
    ],
    [
      'long names',
      (index: number) => Buffer.concat([key, lengthOf(4000), Buffer.from(String(index).padEnd(4000, 'w'))]),
    ],
    ['keys without any', () => key],
  ])('is refused before its %s fill the memory', (_, entry) => {
    const piece = (first: number) =>
      Buffer.concat(Array.from({ length: 1000 }, (_, index) => entry(first + index)))
    const found = new ExternalFiles()
    expect(() => {
      for (let first = 0; first < 200_000; first += 1000) found.look(piece(first))
    }).toThrow(TooManyFiles)
  })

  it('is not one that names what no system takes', () => {
    const found = new ExternalFiles()
    for (let index = 0; index < 100; index++)
      found.look(Buffer.concat([key, lengthOf(10_000), Buffer.alloc(10_000, String(index))]))
    expect(found.in('/models')).toEqual([])
  })
})

describe('a hash of content', () => {
  it.each([0, 1, 1 << 20, (1 << 20) + 1, 3_000_000])(
    'is that of the bytes, wherever they are (%i of them)',
    async (length) => {
      const bytes = new Uint8Array(new SharedArrayBuffer(length))
      for (let at = 0; at < length; at += 997) bytes[at] = at
      const path = join(ownFolder(), 'file')
      writeFileSync(path, bytes.slice())
      const hash = await hashOfBytes(bytes)
      expect(await hashOfFile(path)).toBe(hash)
      expect(await hashOfBytes(new Uint8Array(length + 1))).not.toBe(hash)
    },
  )
})

describe('a sealed file', () => {
  it('gives what was written, and nothing once it was changed', async () => {
    const path = join(ownFolder(), 'file')
    await writeSealed(path, { answer: 42 })
    expect(readSealed(path)).toEqual({ answer: 42 })
    writeFileSync(path, readFileSync(path, 'utf8').replace('42', '43'))
    expect(readSealed(path)).toBe(null)
    expect(readSealed(`${path}.absent`)).toBe(null)
  })
})

describe('a lock', () => {
  it('is had by one at a time, and by the next one once it is released', async () => {
    const path = join(ownFolder(), 'lock')
    const first = await EntryLock.take(path, 0, never)
    expect(first).not.toBe(null)
    expect(await EntryLock.take(path, 0, never)).toBe(null)
    const next = EntryLock.take(path, 60_000, never)
    await first!.release()
    expect(await next).not.toBe(null)
    await (await next)!.release()
  })

  it('is taken from a process that has ended', async () => {
    const path = join(ownFolder(), 'lock')
    writeFileSync(path, `${await endedIdentity()} token`)
    const lock = await EntryLock.take(path, 0, never)
    expect(readFileSync(path, 'utf8')).toContain(ownIdentity())
    await lock!.release()
  })

  it('is taken from who does not move it any more, wherever that is', async () => {
    const path = join(ownFolder(), 'lock')
    for (const content of ['elsewhere.1.2 token', '']) {
      writeFileSync(path, content)
      expect(await EntryLock.take(path, 0, never, 1000)).toBe(null)
      const lock = await EntryLock.take(path, 60_000, never, 100)
      expect(lock).not.toBe(null)
      await lock!.release()
    }
  })

  it.each<[string, (path: string) => void]>([
    ['a folder', (path) => (mkdirSync(path), writeFileSync(join(path, 'file'), ''))],
    ['a link to nothing', (path) => symlinkSync('/nowhere', path)],
    ['a pipe', (path) => execFileSync('mkfifo', [path])],
  ])('is taken when %s is in its place', async (_, put) => {
    const path = join(ownFolder(), 'lock')
    put(path)
    const lock = await EntryLock.take(path, 60_000, never, 100)
    expect(readFileSync(path, 'utf8')).toContain(ownIdentity())
    await lock!.release()
  })

  it.skipIf(!canMount())('that is left on a disk that is only to be read is not waited for', async () => {
    const dir = mounted('64k')
    const path = join(dir, 'lock')
    writeFileSync(path, 'elsewhere.1.2 token')
    execFileSync('mount', ['-o', 'remount,ro', dir])
    await expect(EntryLock.take(path, 60_000, never, 100)).rejects.toThrow('EROFS')
  })

  it('that was taken away is not given back by who had it', async () => {
    const path = join(ownFolder(), 'lock')
    const lock = await EntryLock.take(path, 0, never)
    writeFileSync(path, 'of another')
    await lock!.release()
    expect(readFileSync(path, 'utf8')).toBe('of another')
  })

  it('is not waited for when the signal fires', async () => {
    const path = join(ownFolder(), 'lock')
    const lock = await EntryLock.take(path, 0, never)
    const controller = new AbortController()
    const next = EntryLock.take(path, 60_000, controller.signal)
    controller.abort(new Error('enough'))
    await expect(next).rejects.toThrow()
    await lock!.release()
  })
})

describe('the identity of a process', () => {
  it('tells whether it has ended', async () => {
    expect([
      hasEnded(ownIdentity()),
      hasEnded(await endedIdentity()),
      hasEnded(''),
      hasEnded('elsewhere.1.2'),
    ]).toEqual([false, true, false, false])
    const [place, pid] = ownIdentity().split('.')
    expect(hasEnded(`${place}.${pid}.1`)).toBe(true) // another one had that number
  })

  it.skipIf(process.platform !== 'linux')(
    'tells whether a thread was terminated while its process goes on',
    async () => {
      const code = `
        const { readFileSync, readlinkSync } = require('node:fs')
        const id = readlinkSync('/proc/thread-self').split('/').at(-1)
        const start = readFileSync('/proc/' + id + '/stat', 'latin1').split(') ')[1].split(' ')[19]
        require('node:worker_threads').parentPort.postMessage(id + '.' + start)
        setInterval(() => {}, 1000)`
      const worker = new Worker(code, { eval: true })
      const [thread] = (await once(worker, 'message')) as [string]
      const identity = `${ownIdentity().split('.')[0]}.${thread}`
      expect(hasEnded(identity)).toBe(false)
      await worker.terminate()
      expect(hasEnded(identity)).toBe(true)
    },
  )
})

describe('turns', () => {
  it('are taken one after the other for one key, and by no more than so many in all', async () => {
    const turns = new Turns(2)
    const running: string[] = []
    const most: number[] = []
    const work = (key: string) =>
      turns.take(key, never, async () => {
        expect(running).not.toContain(key)
        running.push(key)
        most.push(running.length)
        for (let count = 0; count < 10; count++) await Promise.resolve()
        running.splice(running.indexOf(key), 1)
        return key
      })
    expect(await Promise.all(['a', 'b', 'a', 'c', 'b', 'd'].map(work))).toEqual([
      'a',
      'b',
      'a',
      'c',
      'b',
      'd',
    ])
    expect(Math.max(...most)).toBe(2)
  })

  it('are not waited for when the signal fires, and go on after a failure', async () => {
    const turns = new Turns(1)
    const controller = new AbortController()
    let fail!: (error: Error) => void
    const first = turns.take('a', never, () => new Promise<void>((_, reject) => (fail = reject)))
    const second = turns.take('a', controller.signal, async () => 'never')
    const third = turns.take('a', never, async () => 'third')
    controller.abort(new Error('enough'))
    await expect(second).rejects.toThrow('enough')
    fail(new Error('failed'))
    await expect(first).rejects.toThrow('failed')
    expect(await third).toBe('third')
  })
})
