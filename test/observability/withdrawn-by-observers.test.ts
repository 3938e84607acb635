import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, describe, expect, it } from 'vitest'
import type { BatchMessage, ModelOptions, RequestMessage } from '../../src/index.ts'
import * as small from '../models/small.ts'
import { one } from '../pipelines/arithmetic.ts'
import { ownEngine } from '../support/open.ts'
import { expectedOf, Ledger } from './ledger.ts'

const listeners: [string, (message: unknown) => void][] = []

function listen(channel: string, told: (message: unknown) => void): void {
  subscribe(channel, told)
  listeners.push([channel, told])
}

afterEach(() => {
  for (const [channel, told] of listeners.splice(0)) unsubscribe(channel, told)
})

const kinds: Record<string, ModelOptions> = {
  'as they are': {},
  'in order': { dynamicBatching: { preserveOrdering: true } },
  'with a response cache': { responseCache: true },
}

describe.each(Object.entries(kinds))('requests %s', (_, config) => {
  it.each(['zerohop:batch', 'zerohop:request'])(
    'that are withdrawn by who is told on %s of their batch or of each other are counted once, as what their callers saw',
    async (channel) => {
      const engine = ownEngine({ cpuWorkers: 1 })
      const model = await engine.load('withdrawn', {
        path: small.identity('float32', [1]),
        maxBatchSize: 8,
        ...config,
      })
      const ledger = new Ledger()
      const controllers = Array.from({ length: 64 }, () => new AbortController())
      let told = 0
      listen(channel, (message) => {
        if ((message as BatchMessage | RequestMessage).type === 'ended')
          controllers[(7 * told++ + 3) % controllers.length]!.abort('aborted')
      })
      await Promise.all(
        controllers.map(({ signal }, value) => ledger.note(() => model.infer({ x: one(value) }, { signal }))),
      )
      expect(ledger.seen['aborted']).toBeGreaterThan(0)
      expect(ledger.seen['answered']).toBeGreaterThan(0)
      const { found, expected } = expectedOf(model, ledger)
      expect(found).toEqual(expected)
    },
  )
})
