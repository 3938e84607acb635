import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import * as small from '../models/small.ts'
import { ownPath } from './served.ts'

it.skipIf(process.platform !== 'linux')(
  'a client and its server that have nothing to do are woken by nothing, and hold no process by themselves',
  async () => {
    const child = fork(fileURLToPath(new URL('fixtures/idle-connection.mjs', import.meta.url)), [
      ownPath(),
      small.identity('float32'),
    ])
    const told = await new Promise<{ median: number; timers: string[] }>((resolve, reject) => {
      child.once('message', (message) => resolve(message as never))
      child.once('exit', (code) => reject(new Error(`it ended with code ${code}`)))
    })
    expect(told).toMatchObject({ median: 0, timers: [] })
    expect(await new Promise((resolve) => child.once('exit', resolve))).toBe(0)
  },
)
