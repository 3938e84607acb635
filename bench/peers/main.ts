import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { createRequire } from 'node:module'
import { Command, InvalidArgumentError } from 'commander'
import { tableOf } from '../table.ts'
import { measure } from './measure.ts'
import { PeerMissing, type Peer, type PeerOptions, type Versions } from './peer.ts'
import { peers as allPeers } from './peers.ts'
import { expectedSeconds, levelsOf, planOf } from './plan.ts'
import { Found, joined, markdownOf, tableOfWorkload, targetsOf, type Asked, type Row, type Unit } from './result.ts'
import { readState, type State } from './state.ts'
import { workloadNames, type Workload, type WorkloadName } from './workload.ts'
import { prepare } from './workloads.ts'

const above0 = (value: string): number => {
  if (!(Number(value) > 0)) throw new InvalidArgumentError('A number above 0 is expected.')
  return Number(value)
}

const count = (value: string): number => {
  if (!/^[1-9]\d*$/.test(value)) throw new InvalidArgumentError('A whole number of at least 1 is expected.')
  return Number(value)
}

const oneOf = (names: readonly string[]) => (value: string): string[] => {
  const asked = value.split(',').map((name) => name.trim())
  const unknown = asked.filter((name) => !names.includes(name))
  if (unknown.length > 0) throw new InvalidArgumentError(`Unknown: ${unknown.join(', ')}. There are: ${names.join(', ')}.`)
  return asked
}

const help = `
Peers, each alone on the machine and in turns:
${allPeers.map(({ name, describe }) => `  ${name.padEnd(26)}${describe}`).join('\n')}

What a peer needs is made on first use below .cache/peers; one that cannot be had is a row that says why. It measures what is in
dist/: run \`npm run build:ts\` first, and leave the machine alone meanwhile. With --json what was measured is kept after each
peer, and the same command goes on where it was ended. See bench/peers/README.md.`

interface CommandLine extends PeerOptions {
  readonly quick: boolean
  readonly smoke: boolean
  readonly only?: string[]
  readonly models?: WorkloadName[]
  readonly rounds?: number
  readonly seconds?: number
  readonly json?: string
  readonly markdown?: string
  readonly fresh: boolean
  readonly setUpOnly: boolean
}

const command = new Command('npm run bench:peers --')
  .option('--quick', 'a round of seconds: 1 and 64 callers, one rate', false)
  .option('--smoke', 'only a look at whether they run: 8 callers and one rate, fractions of a second', false)
  .option('--only <peers>', 'these, with commas between', oneOf(allPeers.map(({ name }) => name)))
  .option('--models <models>', workloadNames.join(', '), oneOf(workloadNames))
  .option('--rounds <rounds>', 'how often the peers take turns (default: 3)', count)
  .option('--seconds <seconds>', 'length of one measurement, twice that for images (default: 4)', above0)
  .option('--json <file>', 'write the result there, and go on from what is there')
  .option('--markdown <file>', 'write the tables there')
  .option('--fresh', 'begin anew although --json has results', false)
  .option('--triton-backends <folder>', "Triton's back ends, where `onnxruntime` is built; see bench/peers/README.md")
  .option('--set-up-only', 'make what the peers need, and measure nothing', false)
  .addHelpText('after', help)
  .parse()
const options = command.opts<CommandLine>()
const { only, models = workloadNames, json } = options
const plan = planOf(options)
const peers = allPeers.filter(({ name }) => only === undefined || only.includes(name))

const workloads: Workload[] = []
const missing: Record<string, string> = {}
for (const name of models) {
  try {
    workloads.push(await prepare(name))
  } catch (error) {
    console.log(`${name} is left out: ${(error as Error).message}`)
  }
}

const versions: Record<string, Versions> = {}
for (const peer of peers) {
  try {
    versions[peer.name] = await peer.setUp(options)
    console.log(`${peer.name}: ${Object.entries(versions[peer.name]!).map(([name, version]) => `${name} ${version}`).join(', ')}`)
  } catch (error) {
    if (!(error instanceof PeerMissing)) throw error
    missing[peer.name] = error.message
    console.log(`${peer.name} is left out: ${error.message}`)
  }
}
if (options.setUpOnly) process.exit()

const has = (peer: Peer, { name }: Workload): boolean => missing[peer.name] === undefined && (peer.lacks?.(name) ?? null) === null
const pairs = workloads.flatMap((workload) => peers.filter((peer) => has(peer, workload)).map((peer) => ({ peer, workload })))
const state: State = readState(options.fresh ? undefined : json, plan)
const left = pairs.length * plan.rounds - state.units.filter(({ error }) => error === null).length
console.log(`${pairs.length} pairs of peer and model, ${plan.rounds} rounds: about ${Math.ceil(expectedSeconds(plan, pairs) / 60)} minutes${state.units.length > 0 ? `, ${left} of ${pairs.length * plan.rounds} measurements left` : ''}`)

for (let round = 0; round < plan.rounds; round++) {
  for (const workload of workloads) {
    const turn = peers.filter((peer) => has(peer, workload))
    for (const peer of round % 2 === 0 ? turn : turn.toReversed()) await measureOnce(peer, workload, round)
  }
}
report()

async function measureOnce(peer: Peer, workload: Workload, round: number): Promise<void> {
  const key = { workload: workload.name, peer: peer.name, round }
  const isSame = (unit: Unit): boolean => unit.peer === key.peer && unit.workload === key.workload && unit.round === round
  if (state.units.some((unit) => isSame(unit) && unit.error === null)) return
  let unit: Unit
  try {
    unit = { ...key, levels: await measure(peer, workload, levelsOf(plan, peer, workload)), error: null }
  } catch (error) {
    unit = { ...key, levels: null, error: (error as Error).message }
  }
  state.units.splice(0, Infinity, ...state.units.filter((other) => !isSame(other)), unit)
  const said = unit.levels?.map(({ callers, ratePerSecond, requestsPerSecond, p99Ms }) => `${callers ?? `${ratePerSecond}/s`}: ${requestsPerSecond.toFixed(0)}/s p99 ${p99Ms.toFixed(2)} ms`)
  console.log(`round ${round + 1}, ${workload.name}, ${peer.name}: ${said?.join(' | ') ?? `FAILED: ${unit.error}`}`)
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(resultOf(), null, 2)}\n`)
}

function resultOf(): Record<string, unknown> {
  const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }
  const machine = { cores: availableParallelism(), cpu: cpus()[0]?.model.trim(), node: process.versions.node, onnxruntime: version }
  const asked: Asked[] = workloads.map(({ name: workload, title, rates, inProcessRates }) => ({
    workload, title, peers: peers.filter((peer) => workload !== 'mlp-binary' || peer.kind === 'http'),
    rates: [...rates.slice(0, plan.openLoops), ...(plan.openLoops > 1 ? inProcessRates : [])],
  }))
  const tables = asked.map((each) => tableOfWorkload(each, state.units, missing, plan))
  const targets = targetsOf(asked, state.units, plan)
  const found = new Found(state.units)
  const callers = plan.callers.includes(64) ? 64 : plan.callers[0]!
  const [ours, plain] = ['zerohop', 'same-thread-batcher'].map((name) => found.at('mlp', name, { callers }, 'requestsPerSecond'))
  const settings = {
    ...plan,
    versions,
    missing,
    peers: Object.fromEntries(pairs.map(({ peer, workload }) => [`${peer.name}, ${workload.name}`, peer.settings(workload)])),
  }
  return {
    trial: 'peers', ours, plain, unit: `requests/s of ${callers} callers, MLP in process, against a batcher on their own thread`,
    ratio: found.ratio('mlp', 'zerohop', 'same-thread-batcher', callers), settings, targets, met: targets.every(({ met }) => met),
    rows: joined(tables), tables, smoke: options.smoke, machine,
    date: new Date().toISOString(), details: { plan, units: state.units },
  }
}

function withoutNote(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([column]) => column !== 'note'))
}

function report(): void {
  const { tables, targets, ...result } = resultOf() as { tables: ReturnType<typeof tableOfWorkload>[]; targets: ReturnType<typeof targetsOf> }
  for (const { title, rows } of tables) {
    if (rows.length > 0) console.log(`\n${title}\n${tableOf(rows.map(withoutNote))}`)
    for (const { peer, note } of rows) if (note !== '') console.log(`${peer}: ${note}`)
  }
  for (const { what, found, target, met } of targets) console.log(`${what}: ${found}, target ${target}: ${met ? 'met' : 'NOT met'}`)
  if (json !== undefined) writeFileSync(json, `${JSON.stringify({ ...result, targets, tables }, null, 2)}\n`)
  if (options.markdown !== undefined) writeFileSync(options.markdown, tables.map(markdownOf).join('\n'))
  if (options.smoke) console.log('a smoke run: the figures mean nothing')
}
