import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { expect, it } from 'vitest'
import { identity } from '../models/small.ts'
import { full } from '../support/full.ts'
import { temporaryFolder } from '../triton-repository/temporary.ts'

/** Every option there is, fields of errors, names of inputs, and one that means nothing. `signal` breaks Node itself. */
const names = [
  'foo',
  'path',
  'maxBatchSize',
  'dynamicBatching',
  'instanceGroup',
  'kind',
  'count',
  'gpus',
  'sessionOptions',
  'executionProviders',
  'warmup',
  'latencyTargetMs',
  'weight',
  'optionalInputs',
  'padding',
  'rerunAfterCrash',
  'rejectNonFinite',
  'splitOversized',
  'preferredBatchSize',
  'maxQueueDelayMs',
  'priorityLevels',
  'defaultPriorityLevel',
  'defaultQueuePolicy',
  'priorityQueuePolicy',
  'holdUntilQueued',
  'cpuWorkers',
  'staging',
  'workers',
  'limitBytes',
  'resourceLimits',
  'execArgv',
  'env',
  'startTimeoutMs',
  'timeoutMs',
  'deadlineMs',
  'priority',
  'outputs',
  'requestId',
  'report',
  'ordered',
  'maxInFlight',
  'width',
  'height',
  'fit',
  'crop',
  'kernel',
  'background',
  'channels',
  'layout',
  'dtype',
  'scale',
  'mean',
  'std',
  'formats',
  'limitInputPixels',
  'limitInputBytes',
  'into',
  'offset',
  'models',
  'onNote',
  'model',
  'hint',
  'cause',
  'x',
  'y',
  'data',
  'dims',
  'type',
  'location',
  'retryAfterMs',
  'estimatedMs',
  'received',
  'expected',
  'argument',
  'code',
  'name',
  'sequence',
  'sequenceId',
  'sequenceStart',
  'sequenceEnd',
  'direct',
  'oldest',
  'state',
  'controls',
  'batchAxis',
  'shared',
]

it('a name that Object.prototype has been given changes no answer and makes no call fail', async () => {
  const image = await sharp(Buffer.of(1, 2, 3, 4, 5, 6), { raw: { width: 2, height: 1, channels: 3 } })
    .png()
    .toBuffer()
  const file = join(temporaryFolder({}), 'two-pixels.png')
  writeFileSync(file, image)
  const fixture = fileURLToPath(new URL('fixtures/polluted.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [
    fixture,
    JSON.stringify([identity('float32'), names.filter((_, at) => full || at % 3 === 0), file]),
  ])
  const { before, report } = JSON.parse(stdout) as { before: Record<string, string>; report: unknown[] }
  expect(report).toEqual([])
  expect(before).toMatchObject({
    infer: '[1,2,3,4]',
    image: '[1,4,2,5,3,6]',
    'wrong infer option': expect.stringContaining('ERR_INVALID_ARG'),
  })
})
