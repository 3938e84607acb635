#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { InferenceError } from '../index.ts'
import { outliveClosedPipes } from './closed-pipe.ts'
import { providers } from './providers.ts'
import { types } from './types.ts'

const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }

const program = new Command('zerohop')
  .description('ONNX inference inside a Node.js process')
  .version(manifest.version)
  .addCommand(types)
  .addCommand(providers)

outliveClosedPipes()
try {
  await program.parseAsync()
} catch (error) {
  if (error instanceof InferenceError) console.error(`${error.code}: ${error.message}`)
  else if (error instanceof Error && 'syscall' in error) console.error(`error: ${error.message}`)
  else throw error
  process.exitCode = 1
}
