#!/usr/bin/env node
import { Command, CommanderError } from 'commander'
import { libraryVersion } from '../library-version.ts'
import { outliveClosedPipes } from './closed-pipe.ts'
import { devices } from './list-devices.ts'
import { failureOf, tell, usualExitCodes } from './failure.ts'
import { inspect } from './inspect.ts'
import { printJson } from './print-json.ts'
import { perf } from './perf.ts'
import { perfReport } from './perf-report.ts'
import { perfExitCodes } from './perf-exit-codes.ts'
import { withReason } from './perf-left-out.ts'
import { providers } from './providers.ts'
import { traceExport } from './trace-export.ts'
import { traceSummary } from './trace-summary.ts'
import { simulate } from './simulate-command.ts'
import { tune } from './tune.ts'
import { types } from './types.ts'

const program = new Command('zerohop')
  .description('ONNX inference inside a Node.js process')
  .version(libraryVersion)
  .exitOverride()
  .configureOutput({ outputError: () => {} }) // told below, in one line
  .addHelpText('after', '\nExit codes: 0 done; 1 a model, a file or this machine is not as it has to be; 2 the command line is not. Those of perf are its own, and tune ends with 130 after Ctrl-C.')
for (const command of [inspect, types, devices, providers, perf, perfReport, tune, simulate, traceSummary, traceExport]) program.addCommand(command.copyInheritedSettings(program))

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
  if (exitCodes === perfExitCodes && error instanceof CommanderError) error.message = withReason(error.message)
  const { exitCode, ...failure } = failureOf(error, exitCodes)
  if (error instanceof CommanderError && error.code === 'commander.help') return exitCode // help was shown for want of a command
  if (wantsJson) printJson({ error: failure })
  tell({ ...failure, exitCode })
  return exitCode
}
