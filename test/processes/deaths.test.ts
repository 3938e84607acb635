// Alone: it changes the environment of its process.
import { fork, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InferenceEngine } from '../../src/index.ts'
import { loadBinding } from '../../src/native/addon.ts'
import { connect, serve } from '../../src/adapters/processes/processes.ts'
import { reserve } from '../../src/adapters/processes/engine-server.ts'
import { rejectionOf } from '../abuse/refusal.ts'
import * as small from '../models/small.ts'
import { full, repetitions } from '../support/full.ts'
import { until } from '../support/until.ts'
import { AskingClient, endings } from './asking-clients.ts'
import { ownPath, served, ways } from './served.ts'

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
const identity = small.identityVariable('float32')
process.env['ZEROHOP_TEST_IDENTITY'] = identity

/** Pieces of memory that this process shares with others. */
const sharedAreas = () =>
  process.platform === 'linux'
    ? readFileSync('/proc/self/maps', 'utf8')
        .split('\n')
        .filter((line) => line.includes('memfd:zerohop')).length
    : 0
const limitMs = 60_000 + 4000 * endings

describe.each(ways)('through $way', ({ sharedMemory }) => {
  const whole = full || sharedMemory === ways[0]!.sharedMemory

  it(
    'a client that is killed leaves nothing behind, and others see nothing of it',
    async () => {
      const { engine, server, remote, path } = await served(sharedMemory)
      await engine.load('identity', { path: identity, dynamicBatching: { maxQueueDelayMs: 1 } })
      const survivor = new AskingClient({ path, sharedMemory, id: 1 })
      await survivor.next()
      const areas = sharedAreas()
      for (let death = 0; death < endings; death++) {
        const victim = new AskingClient({
          path,
          sharedMemory,
          id: 2 + death,
          reportEvery: 1 + ((death * 37) % 100),
          ...(death % 3 === 0 ? { elements: 200_000 } : {}),
        })
        await victim.next()
        victim.child.kill('SIGKILL')
        await victim.ended
        expect(victim.counts!.wrong).toEqual([])
        await survivor.next()
      }
      await until(() => server.stats().clients === 2)
      const { wrong, disconnected, right } = await survivor.stop()
      expect({ wrong, disconnected }).toEqual({ wrong: [], disconnected: 0 })
      expect(right).toBeGreaterThan(50 * endings)
      await until(() => server.stats().clients === 1)
      expect(server.stats().inFlight).toBe(0)
      expect(sharedAreas()).toBe(areas - (sharedMemory ? 1 : 0))
      expect(engine.model('identity').stats().pendingRequestCount).toBe(0)
      expect(
        (
          await remote.infer('identity', {
            x: { type: 'float32', dims: [1, 1], data: new Float32Array([5]) } as never,
          })
        )['y']!.data[0],
      ).toBe(5)
      await engine.unload('identity')
      expect(engine.stats().staging).toMatchObject({ usedBytes: 0 }) // nobody holds a slot of it
    },
    limitMs,
  )

  it.runIf(whole)(
    'a serving process that is killed is told of by a typed error, and started again by the next call',
    async () => {
      const path = ownPath()
      const spawn = { module: pathToFileURL(fixture('identity-engine.mjs')).href, idleMs: 200 }
      const clients = [1, 2].map((id) => new AskingClient({ path, sharedMemory, id, spawn }))
      let server = 0
      for (let death = 0; death < endings; death++) {
        const counts = await Promise.all(
          clients.map((client) => client.until((each) => each.server !== server && each.right > 0)),
        )
        expect(counts.map(({ wrong }) => wrong)).toEqual([[], []])
        expect(counts[0]!.server).toBe(counts[1]!.server) // one for both
        server = counts[0]!.server
        process.kill(server, 'SIGKILL')
      }
      await Promise.all(clients.map((client) => client.until((each) => each.server !== server)))
      const last = await Promise.all(clients.map((client) => client.stop()))
      expect(last.map(({ wrong }) => wrong)).toEqual([[], []])
      expect(last.every(({ disconnected, right }) => disconnected > 0 && right > 0)).toBe(true)
      await until(() => !isAlive(last[0]!.server)) // idle
    },
    limitMs,
  )

  it.runIf(whole)(
    'a client that nothing else holds is told of the death of what serves it',
    async () => {
      for (let death = 0; death < endings; death++) {
        const path = ownPath()
        const server = fork(fixture('silent-server.mjs'), [path])
        await once(server, 'message')
        const client = spawn(process.execPath, [fixture('waiting-client.mjs'), path, String(sharedMemory)], {
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        const said: string[] = []
        client.stdout.setEncoding('utf8').on('data', (text: string) => {
          said.push(...text.trim().split('\n'))
          if (said[0] === 'asks') server.kill('SIGKILL')
        })
        await once(client, 'close')
        expect(said).toEqual(['asks', 'ERR_DISCONNECTED'])
      }
    },
    limitMs,
  )

  it.runIf(whole)('a worker thread reaches the engine of its process, and may end at any time', async () => {
    const { engine, server, path } = await served(sharedMemory)
    await engine.load('identity', { path: small.identity('float32') })
    const started = [true, false, false].map(
      (closes, id) =>
        new Worker(fixture('in-worker.mjs'), { workerData: { path, sharedMemory, id, closes } }),
    )
    const told = await Promise.all(
      started.map(
        (worker) => new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject)),
      ),
    )
    expect(told).toEqual(Array(3).fill({ right: true, sharesMemory: sharedMemory }))
    await Promise.all(started.map((worker) => worker.terminate()))
    await until(() => server.stats().clients === 1)
    expect(sharedAreas()).toBe(sharedMemory ? 2 : 0) // both ends of the client that is left
  })
})

function isAlive(process_: number): boolean {
  try {
    process.kill(process_, 0)
    return true
  } catch {
    return false
  }
}

describe('a serving process', () => {
  it('is exactly one, however many ask for it at once', async () => {
    const path = ownPath()
    const spawn = { module: fixture('identity-engine.mjs'), idleMs: 100 }
    const all = await Promise.all(Array.from({ length: repetitions(8, 4) }, () => connect(path, { spawn })))
    expect(new Set(all.map(({ server }) => server.process)).size).toBe(1)
    expect(all[0]!.server.process).not.toBe(process.pid)
    await Promise.all(all.map((each) => each.close()))
    await until(() => !isAlive(all[0]!.server.process))
    const again = await connect(path, { spawn })
    expect(again.server.process).not.toBe(all[0]!.server.process)
    await again.close()
  })

  it.skipIf(loadBinding().binding?.processes == null)(
    'that is a worker thread leaves its path to the next one, however it ends',
    async () => {
      const path = ownPath()
      const worker = new Worker(fixture('serving-worker.mjs'), { workerData: path })
      await once(worker, 'message')
      await worker.terminate()
      const engine = new InferenceEngine()
      await (await serve(engine, { path })).close()
    },
  )

  it('loads its models only where nobody else is about to serve', async () => {
    const path = ownPath()
    const loads = `${path}.loads`
    const spawn = {
      module: fixture('noted-engine.mjs'),
      idleMs: 0,
      env: { ...process.env, ZEROHOP_TEST_LOADS: loads } as Record<string, string>,
    }
    const others = reserve(path)
    expect(await rejectionOf(() => connect(path, { spawn, timeoutMs: 1500 }))).toMatchObject({
      code: 'ERR_DISCONNECTED',
    })
    expect(existsSync(loads)).toBe(false)
    others.release()
    const remote = await connect(path, { spawn })
    expect(readFileSync(loads, 'utf8')).toBe('loaded\n')
    await remote.close()
    await until(() => !isAlive(remote.server.process)) // although the module has a timer of its own
  })

  it('is started by a program on the command line, too', () => {
    const program = `import { connect } from 'zerohop/processes'
      const remote = await connect(${JSON.stringify(ownPath())}, { spawn: { module: ${JSON.stringify(fixture('identity-engine.mjs'))}, idleMs: 0 } })
      console.log((await remote.models())[0].name)
      await remote.close()`
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
    })
    expect(stdout).toBe('identity\n')
  })

  it('that does not answer is told of in time', async () => {
    const path = ownPath()
    const suspended = createServer()
    await new Promise<void>((resolve) => suspended.listen(path, resolve))
    onTestFinished(() => void suspended.close())
    for (const { sharedMemory } of ways) {
      expect(await rejectionOf(() => connect(path, { timeoutMs: 50, sharedMemory }))).toMatchObject({
        code: 'ERR_DISCONNECTED',
        message: expect.stringContaining('did not answer within'),
      })
    }
  })

  it('that cannot be started is told of with its reason', async () => {
    expect(
      await rejectionOf(() => connect(ownPath(), { spawn: { module: fixture('broken-engine.mjs') } })),
    ).toMatchObject({
      code: 'ERR_DISCONNECTED',
      cause: { name: 'RangeError', message: 'no engine today (broken-engine.mjs:2)' },
    })
    expect(await rejectionOf(() => connect(ownPath(), { spawn: { module: './nowhere.mjs' } }))).toMatchObject(
      { code: 'ERR_DISCONNECTED' },
    )
  })

  it('that is nowhere is told of in time', async () => {
    expect(await rejectionOf(() => connect(ownPath(), { timeoutMs: 20 }))).toMatchObject({
      code: 'ERR_DISCONNECTED',
      message: expect.stringContaining('spawn'),
    })
  })
})
