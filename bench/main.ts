import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command } from 'commander'
import { above0, count } from './argument-values.ts'
import { readKeptResults } from './kept-result.ts'
import { resultsDocument } from './results-document.ts'
import { runTrial } from './run-trial.ts'
import type { TrialOptions } from './trial.ts'
import { trials } from './all-trials.ts'

/** The experiments that serving systems are shown with. */
const ofTheField = ['centralised', 'optimisation-walk', 'bursts', 'two-soaks']

const help = `
Trials, each in processes of its own, the baseline and ours in turns:
${Object.entries(trials)
  .map(([name, { describe }]) => `  ${name.padEnd(18)}${describe}`)
  .join('\n')}

Without a name: ${ofTheField.join(', ')}, the experiments that serving systems are shown with; with --quick they take
less than a quarter of an hour. Their results are kept as with --results.

It measures what is in dist/: run \`npm run build:ts\` first, and leave the machine alone meanwhile. Figures are medians
over the rounds. The last line of a trial is RESULT and the result as JSON; --json writes it with the single measurements,
and --results all of them, a file each, and their tables to bench/results.md (\`npm run bench:numbers\` those of README).
Models are generated on first use.`

interface CommandLine extends Omit<TrialOptions, 'seconds'> {
  readonly json?: string
  readonly results?: string | true
  readonly seconds?: number
}

const command = new Command('npm run bench --')
  .argument('[trials...]', Object.keys(trials).join(', '))
  .option('--json <file>', 'write the result there as well; of one trial')
  .option(
    '--results [folder]',
    'keep each result there, as TRIAL.json (default: bench/results, and tables in bench/results.md)',
  )
  .option('--seconds <seconds>', 'length of one measurement', above0)
  .option('--rounds <rounds>', 'how often ours and the baseline take turns', count, 3)
  .option('--images <count>', 'images of the trial jobs', count, 100)
  .option('--requests <count>', 'requests of the trial soak', count, 1_000_000)
  .option(
    '--target-ms <milliseconds>',
    'latency target of the trial latency-target (default: 6 runs of one row)',
    above0,
  )
  .option('--quick', 'less of what takes long, for the trials that take minutes', false)
  .option('--smoke', 'only a look at whether the trial runs: a few seconds, little models', false)
  .addHelpText('after', help)
  .parse()

const { json, results, ...options } = command.opts<CommandLine>()
const names = command.args.length > 0 ? command.args : ofTheField
const unknown = names.find((name) => !Object.hasOwn(trials, name))
if (unknown !== undefined)
  command.error(`Unknown trial '${unknown}'. There are: ${Object.keys(trials).join(', ')}`)
if (json !== undefined && names.length > 1)
  command.error('--json takes the result of one trial; --results writes those of several.')

const kept = fileURLToPath(new URL('results/', import.meta.url))
const isKept = results === true || (results === undefined && command.args.length === 0 && !options.smoke)
const folder = isKept ? kept : (results as string | undefined)
for (const name of names)
  await runTrial(
    name,
    trials[name]!,
    options,
    json ?? (folder === undefined ? undefined : join(folder, `${name}.json`)),
  )
if (isKept) {
  writeFileSync(join(kept, '../results.md'), resultsDocument(readKeptResults(kept)))
  console.log('bench/results.md written')
}
