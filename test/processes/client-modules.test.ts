import { execFile } from 'node:child_process'
import { dirname } from 'node:path'
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
  const { files, sources, ofNode } = JSON.parse(stdout) as Record<'files' | 'sources' | 'ofNode', string[]>

  const packages = files.flatMap((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? [])
  expect([...new Set(packages)]).toEqual(['onnxruntime-common'])
  const folders = sources.map((file) => dirname(file)).filter((folder) => folder !== '.')
  expect([...new Set(folders)].sort()).toEqual([
    'adapters/processes',
    'base',
    'engine', // how classes are read from outputs
    'native',
    'options',
    'request',
    'tensor',
  ])
  expect(sources.filter((file) => file.startsWith('engine/'))).toEqual(['engine/classification.ts'])
  expect(
    sources.filter((file) =>
      /engine-server|served-client|spawn-server|infer-many|wire-reader|-schema/.test(file),
    ),
  ).toEqual([])
  expect(
    ofNode.filter((name) => /NativeModule (crypto|child_process|worker_threads|http)$/.test(name)),
  ).toEqual([])
})
