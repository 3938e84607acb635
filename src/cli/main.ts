#!/usr/bin/env node
import { Command, CommanderError } from 'commander'
import { libraryVersion } from '../base/own-package.ts'
import { outliveClosedPipes } from './closed-pipe.ts'
import { failureOf, tell, usualExitCodes } from './failure.ts'
import { printJson } from './print-json.ts'
import { perfExitCodes } from './perf-exit-codes.ts'
import { withReason } from './perf-left-out.ts'

/** In the order of the help. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  inspect: async () => (await import('./inspect.ts')).inspect,
  types: async () => (await import('./types.ts')).types,
  devices: async () => (await import('./list-devices.ts')).devices,
  providers: async () => (await import('./providers.ts')).providers,
  perf: async () => (await import('./perf.ts')).perf,
  'perf-report': async () => (await import('./perf-report.ts')).perfReport,
  tune: async () => (await import('./tune.ts')).tune,
  simulate: async () => (await import('./simulate-command.ts')).simulate,
  'trace-summary': async () => (await import('./trace-summary.ts')).traceSummary,
  'trace-export': async () => (await import('./trace-export.ts')).traceExport,
}

/** Only what is run is imported: the engine alone takes a quarter of a second of CPU time. Help shows all, and what is misspelt is compared with all. */
function wanted(word = ''): Promise<Command[]> {
  if (word === '--version' || word === '-V') return Promise.resolve([])
  const names = Object.hasOwn(commands, word) ? [word] : Object.keys(commands)
  return Promise.all(names.map((name) => commands[name]!()))
}

const program = new Command('zerohop')
  .description('ONNX inference inside a Node.js process')
  .version(libraryVersion)
  .exitOverride()
  .configureOutput({ outputError: () => {} }) // told below, in one line
  .addHelpText(
    'after',
    '\nExit codes: 0 done; 1 a model, a file or this machine is not as it has to be; 2 the command line is not. Those of perf are its own, and tune ends with 130 after Ctrl-C.',
  )
for (const command of await wanted(process.argv[2]))
  program.addCommand(command.copyInheritedSettings(program))

/** Also where the command line cannot be read otherwise; among `-r`, `-f`, `-t` and `-v`, too, which take no value. */
const wantsJson = process.argv.some((word) => word === '--json' || /^-[rftv]*j/.test(word))

const exitCodes = process.argv[2] === 'perf' ? perfExitCodes : usualExitCodes

outliveClosedPipes(exitCodes.wrong)
try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = failed(error)
}

/** Tells of an error; the exit code that it makes. */
function failed(error: unknown): number {
  if (error instanceof CommanderError && error.exitCode === 0) return 0 // help or version was asked for
  if (exitCodes === perfExitCodes && error instanceof CommanderError)
    error.message = withReason(error.message)
  const { exitCode, ...failure } = failureOf(error, exitCodes)
  if (error instanceof CommanderError && error.code === 'commander.help') return exitCode // help was shown for want of a command
  if (wantsJson) printJson({ error: failure })
  tell({ ...failure, exitCode })
  return exitCode
}
