#!/usr/bin/env node
import { libraryVersion } from '../base/own-package.ts'
import { runProgram } from './command-line.ts'
import { handOver, toolCommands } from './hand-over.ts'

type Command = import('commander').Command

/** In the order of the help. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  inspect: async () => (await import('./inspect.ts')).inspect,
  types: async () => (await import('./types.ts')).types,
  compile: async () => (await import('./compile.ts')).compile,
  devices: async () => (await import('./device-report.ts')).devices,
  providers: async () => (await import('./providers.ts')).providers,
}

const [, , word = '', next = ''] = process.argv
const tool = [word, word === 'help' ? next : ''].find((name) => Object.hasOwn(toolCommands, name))
if (tool === undefined) await runProgram(await program())
else await handOver(tool)

/**
 * Only the command that runs is imported: the engine alone takes a quarter of a second of CPU time. The help
 * lists all commands, and misspelt ones are compared with all.
 */
async function program(): Promise<Command> {
  const { Command } = await import('commander')
  const program = new Command('zerohop')
    .description('ONNX inference inside a Node.js process')
    .version(libraryVersion)
    .exitOverride()
    .configureOutput({ outputError: () => {} }) // printed in one line
    .addHelpText(
      'after',
      '\nExit codes: 0 done; 1 a problem with a model, a file or this machine; 2 usage. perf has its own codes, and\ntune exits with 130 after Ctrl-C.',
    )
  if (word === '--version' || word === '-V') return program
  const isOwn = Object.hasOwn(commands, word)
  for (const name of isOwn ? [word] : Object.keys(commands))
    program.addCommand((await commands[name]!()).copyInheritedSettings(program))
  if (!isOwn)
    for (const [name, description] of Object.entries(toolCommands))
      program.command(name).description(description)
  return program
}
