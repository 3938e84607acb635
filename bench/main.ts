import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { createRequire } from 'node:module'
import { Command, InvalidArgumentError } from 'commander'
import { tableOf } from './table.ts'
import { TrialSkipped, type Trial, type TrialOptions } from './trial.ts'
import { batchers } from './trials/batchers.ts'
import { eventLoop } from './trials/event-loop.ts'
import { fairness } from './trials/fairness.ts'
import { idle } from './trials/idle.ts'
import { jobsTrial } from './trials/jobs.ts'
import { latency } from './trials/latency.ts'
import { latencyTarget } from './trials/latency-target.ts'
import { leases } from './trials/leases.ts'
import { mixedLengths } from './trials/mixed-lengths.ts'
import { openVino } from './trials/openvino.ts'
import { pipelines } from './trials/pipelines.ts'
import { processes } from './trials/processes.ts'
import { responses } from './trials/responses.ts'
import { saturation } from './trials/saturation.ts'
import { scheduler } from './trials/scheduler.ts'
import { sequences } from './trials/sequences.ts'
import { sessions } from './trials/sessions.ts'
import { soak } from './trials/soak.ts'
import { swaps } from './trials/swaps.ts'
import { throughput } from './trials/throughput.ts'
import { timeouts } from './trials/timeouts.ts'
import { warmLoad } from './trials/warm-load.ts'

const trials: Readonly<Record<string, Trial>> = {
  throughput,
  latency,
  batchers,
  saturation,
  openvino: openVino,
  'event-loop': eventLoop,
  jobs: jobsTrial,
  sessions,
  'warm-load': warmLoad,
  idle,
  'mixed-lengths': mixedLengths,
  responses,
  processes,
  pipelines,
  sequences,
  leases,
  timeouts,
  fairness,
  'latency-target': latencyTarget,
  scheduler,
  swaps,
  soak,
}

const above0 = (value: string): number => {
  if (!(Number(value) > 0)) throw new InvalidArgumentError('A number above 0 is expected.')
  return Number(value)
}

const count = (value: string): number => {
  if (!/^[1-9]\d*$/.test(value)) throw new InvalidArgumentError('A whole number of at least 1 is expected.')
  return Number(value)
}

const help = `
Trials, each in processes of its own, the baseline and ours in turns:
${Object.entries(trials).map(([name, { describe }]) => `  ${name.padEnd(16)}${describe}`).join('\n')}

It measures what is in dist/: run \`npm run build:ts\` first, and leave the machine alone meanwhile. Figures are medians
over the rounds. The last line is RESULT and the result as JSON; --json writes it with the single measurements. Models
are generated on first use.`

interface CommandLine extends Omit<TrialOptions, 'seconds'> {
  readonly json?: string
  readonly seconds?: number
}

const command = new Command('npm run bench --')
  .argument('<trial>', Object.keys(trials).join(', '))
  .option('--json <file>', 'write the result there as well')
  .option('--seconds <seconds>', 'length of one measurement', above0)
  .option('--rounds <rounds>', 'how often ours and the baseline take turns', count, 3)
  .option('--images <count>', 'images of the trial jobs', count, 100)
  .option('--requests <count>', 'requests of the trial soak', count, 1_000_000)
  .option('--target-ms <milliseconds>', 'latency target of the trial latency-target (default: 6 runs of one row)', above0)
  .option('--smoke', 'only a look at whether the trial runs: a few seconds, little models', false)
  .addHelpText('after', help)
  .parse()

const name = command.args[0]!
const trial = trials[name]
if (trial === undefined) command.error(`Unknown trial '${name}'. There are: ${Object.keys(trials).join(', ')}`)
const { json, seconds, ...options } = command.opts<CommandLine>()

const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }
const machine = { cores: availableParallelism(), cpu: cpus()[0]?.model.trim(), node: process.versions.node, onnxruntime: version }
console.log(`${name}: ${trial.describe}`)
console.log(`${machine.cores} cores (${machine.cpu}), Node ${machine.node}, ONNX Runtime ${machine.onnxruntime}`)

const measured = await trial
  .run({ ...options, seconds: seconds ?? (options.smoke ? 0.3 : (trial.seconds ?? 0)), rounds: options.smoke ? 1 : options.rounds })
  .catch((error: unknown) => {
    if (!(error instanceof TrialSkipped)) throw error
    console.log(`${name}${error.message}`)
    process.exit()
  })
const { details, rows, targets, ...figures } = measured

console.log(tableOf(rows))
console.log(`settings: ${JSON.stringify(figures.settings)}`)
for (const { what, found, target, met } of targets) console.log(`${what}: ${found}, target ${target}: ${met ? 'met' : 'NOT met'}`)

const met = targets.every((target) => target.met)
const result = { trial: name, ...figures, targets, met, rows, smoke: options.smoke, machine, date: new Date().toISOString() }
if (json !== undefined) writeFileSync(json, `${JSON.stringify({ ...result, details }, null, 2)}\n`)
if (options.smoke) console.log('a smoke run: the figures mean nothing')
console.log(`RESULT ${JSON.stringify(result)}`)
