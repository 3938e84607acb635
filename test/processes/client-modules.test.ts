import { execFile } from 'node:child_process'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import * as small from '../models/small.ts'
import { served } from './served.ts'

it('a client takes nothing but its own modules and the tensors: no engine, no schemas, no threads, nothing to start processes with', async () => {
  const { path, engine } = await served(true)
  await engine.load('identity', { path: small.identity('float32') })
  const client = fileURLToPath(new URL('fixtures/client-modules.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [client, path, 'identity'])
  const { files, ofNode } = JSON.parse(stdout) as { files: string[]; ofNode: string[] }

  const packages = files.flatMap((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? [])
  expect([...new Set(packages)]).toEqual(['onnxruntime-common'])
  const own = files.flatMap(
    (url) => /.*\/dist\/(.+)\/[^/]+$/.exec(url.replace(/.*\/node_modules\/.*/, ''))?.[1] ?? [],
  )
  expect([...new Set(own)].sort()).toEqual([
    'adapters/processes',
    'base',
    'engine', // how classes are read from outputs
    'native',
    'options',
    'request',
    'tensor',
  ])
  expect(files.filter((url) => url.includes('/dist/engine/')).map((url) => basename(url))).toEqual([
    'classification.js',
  ])
  expect(
    files.filter((url) =>
      /engine-server|served-client|spawn-server|infer-many|wire-reader|-schema/.test(url),
    ),
  ).toEqual([])
  expect(
    ofNode.filter((name) => /NativeModule (crypto|child_process|worker_threads|http)$/.test(name)),
  ).toEqual([])
})
