import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { createRequire } from 'node:module'
import { Command, InvalidArgumentError } from 'commander'
import Table from 'cli-table3'
import type { Trial } from './trial.ts'
import { eventLoop } from './trials/event-loop.ts'
import { jobsTrial } from './trials/jobs.ts'
import { latency } from './trials/latency.ts'
import { saturation } from './trials/saturation.ts'
import { soak } from './trials/soak.ts'
import { throughput } from './trials/throughput.ts'

const trials: Readonly<Record<string, Trial>> = {
  throughput,
  latency,
  saturation,
  'event-loop': eventLoop,
  jobs: jobsTrial,
  soak,
}

const positive = (value: string): number => {
  if (!(Number(value) > 0)) throw new InvalidArgumentError('Expected a number above 0.')
  return Number(value)
}

const list = Object.entries(trials).map(([name, { describe }]) => `  ${name.padEnd(12)}${describe}`)
const command = new Command('npm run bench --')
  .argument('<trial>', Object.keys(trials).join(', '))
  .option('--json <file>', 'write the result there as well')
  .option('--seconds <seconds>', 'length of one measurement', positive)
  .option('--rounds <rounds>', 'how often ours and the baseline take turns', positive, 3)
  .option('--images <count>', 'images of the trial jobs', positive, 32)
  .option('--requests <count>', 'requests of the trial soak', positive, 1_000_000)
  .option('--smoke', 'only a look at whether the trial runs', false)
  .addHelpText('after', `\nTrials, each in processes of its own, ours and the baseline in turns:\n${list.join('\n')}`)
  .parse()

const name = command.args[0]!
const trial = trials[name]
if (trial === undefined) command.error(`Unknown trial '${name}'. There are: ${Object.keys(trials).join(', ')}`)
const options = command.opts<{ json?: string; seconds?: number; rounds: number; images: number; requests: number; smoke: boolean }>()

const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }
const machine = { cores: availableParallelism(), cpu: cpus()[0]?.model.trim(), node: process.versions.node, onnxruntime: version }
console.log(`${name}: ${trial.describe}`)
console.log(`${machine.cores} cores (${machine.cpu}), Node ${machine.node}, ONNX Runtime ${machine.onnxruntime}`)

const result = await trial.run({
  seconds: options.seconds ?? (options.smoke ? 0.5 : trial.seconds),
  rounds: options.smoke ? 1 : options.rounds,
  smoke: options.smoke,
  images: options.images,
  requests: options.requests,
})

const columns = Object.keys(result.rows[0]!)
const table = new Table({ head: columns, style: { head: [], border: [] }, colAligns: columns.map(() => 'right') })
for (const row of result.rows) table.push(columns.map((column) => row[column]!))
console.log(table.toString())
console.log(`target: ${result.target}: ${result.met ? 'met' : 'NOT met'}`)
const report = { trial: name, ...result, smoke: options.smoke, machine, date: new Date().toISOString() }
if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`)
console.log(`RESULT ${JSON.stringify(report)}`)
