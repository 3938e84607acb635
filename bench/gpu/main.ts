import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { createRequire } from 'node:module'
import { Command } from 'commander'
import { tableOf } from '../table.ts'
import { TrialSkipped } from '../trial.ts'
import type { Part, PartResult } from './part.ts'
import { cuda } from './parts/cuda.ts'
import { cudaOptions } from './parts/cuda-options.ts'
import { pageLocked } from './parts/page-locked.ts'
import { providers } from './parts/providers.ts'
import { webGpu } from './parts/webgpu.ts'

const parts: Readonly<Record<string, Part>> = {
  providers,
  webgpu: webGpu,
  'page-locked': pageLocked,
  'cuda-options': cudaOptions,
  cuda,
}

const help = `
Parts:
${Object.entries(parts)
  .map(([name, { describe }]) => `  ${name.padEnd(14)}${describe}`)
  .join('\n')}

What is measured is in dist/: run \`npm run build:ts\` first. Without a GPU the parts run on stand-ins where there are such, and say so:
then figures of speed mean nothing, and SqueezeNet takes some minutes. The last line is RESULT and the result as JSON; the exit code is 1 where a target is not met.`

const command = new Command('npm run bench:gpu --')
  .argument('[part...]', Object.keys(parts).join(', '), Object.keys(parts))
  .option('--json <file>', 'write the result there as well; bench/results/gpu.json is kept')
  .option('--smoke', 'only a look at whether the parts run', false)
  .addHelpText('after', help)
  .parse()
const { json, smoke } = command.opts<{ json?: string; smoke: boolean }>()
const names = command.processedArgs[0] as string[]
const unknown = names.find((name) => !Object.hasOwn(parts, name))
if (unknown !== undefined)
  command.error(`Unknown part '${unknown}'. There are: ${Object.keys(parts).join(', ')}`)

const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }
const machine = {
  cores: availableParallelism(),
  cpu: cpus()[0]?.model.trim(),
  node: process.versions.node,
  onnxruntime: version,
}
console.log(
  `${machine.cores} cores (${machine.cpu}), Node ${machine.node}, ONNX Runtime ${machine.onnxruntime}`,
)

const found: Record<string, PartResult | { skipped: string }> = {}
for (const name of names) found[name] = await runPart(name, parts[name]!)
const standIns = Object.entries(found).flatMap(([name, result]) =>
  'standIn' in result && result.standIn ? [name] : [],
)
const met = Object.values(found).every(
  (result) => 'skipped' in result || result.targets.every((target) => target.met),
)
const measured = Object.entries(found).filter((entry): entry is [string, PartResult] => 'rows' in entry[1])
const result = {
  trial: 'gpu',
  describe: 'what there is on a machine with a GPU, and what models do there',
  met,
  standIns,
  rows: [],
  tables: measured.map(([name, { on, rows }]) => ({ title: `${name}, on ${on}`, rows })),
  targets: measured.flatMap(([, { targets }]) => targets),
  settings: {
    parts: names,
    skipped: Object.fromEntries(
      Object.entries(found).flatMap(([name, part]) => ('skipped' in part ? [[name, part.skipped]] : [])),
    ),
  },
  smoke,
  machine,
  date: new Date().toISOString(),
}
if (json !== undefined) writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`)
if (standIns.length > 0)
  console.log(
    `\non a stand-in: ${standIns.join(', ')}: what is right is shown, figures of speed mean nothing`,
  )
if (smoke) console.log('a smoke run: the figures mean nothing')
console.log(`RESULT ${JSON.stringify(result)}`)
process.exitCode = met ? 0 : 1

async function runPart(name: string, part: Part): Promise<PartResult | { skipped: string }> {
  console.log(`\n${name}: ${part.describe}`)
  try {
    const result = await part.run(
      smoke ? { seconds: 0.05, rounds: 1, smoke } : { seconds: 1, rounds: 3, smoke },
    )
    console.log(`on ${result.standIn ? 'a stand-in: ' : ''}${result.on}`)
    console.log(tableOf(result.rows))
    for (const { what, found, target, met } of result.targets)
      console.log(`${what}: ${found}, target ${target}: ${met ? 'met' : 'NOT met'}`)
    return result
  } catch (error) {
    if (!(error instanceof TrialSkipped)) throw error
    console.log(`${name}${error.message}`)
    return { skipped: error.message.trim() }
  }
}
