import { Command } from 'commander'
import { libraryVersion, runProgram, usualExitCodes } from 'zerohop/internals'
import { perfExitCodes, withReason } from './perf-left-out.ts'

/** The commands that `zerohop` hands over to this package. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  perf: async () => (await import('./perf.ts')).perf,
  'perf-report': async () => (await import('./perf-report.ts')).perfReport,
  tune: async () => (await import('./tune.ts')).tune,
  simulate: async () => (await import('./simulate.ts')).simulate,
  'trace-summary': async () => (await import('./traces.ts')).traceSummary,
  'trace-export': async () => (await import('./traces.ts')).traceExport,
}

const program = new Command('zerohop')
  .version(libraryVersion)
  .exitOverride()
  .configureOutput({ outputError: () => {} }) // printed in one line
const [, , first = '', second = ''] = process.argv
const word = first === 'help' ? second : first
program.addCommand((await commands[word]!()).copyInheritedSettings(program)) // only the command that runs is imported
if (word === 'perf') await runProgram(program, perfExitCodes, withReason)
else await runProgram(program, usualExitCodes)
