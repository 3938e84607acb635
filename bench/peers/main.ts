import { createHash } from 'node:crypto'
import { availableParallelism, cpus } from 'node:os'
import { createRequire } from 'node:module'
import { ownBuild } from '../own-build.ts'
import { withoutOwnPaths } from '../own-paths.ts'
import { tableOf } from '../table.ts'
import { command, options, orError } from './command-line.ts'
import { decodersMs, type DecodersMs } from './decoders.ts'
import { endInOrder, isEnded } from './ending.ts'
import { hasP99, type LevelFigures } from './level-run.ts'
import { measure } from './measure.ts'
import { numbersOf } from './numbers.ts'
import { PeerMissing, type Peer, type Versions } from './peer.ts'
import { peers as allPeers } from './peers.ts'
import { expectedSeconds, levelsOf, planOf, shortenedOf } from './plan.ts'
import { endLeftovers } from './process-tree.ts'
import {
  Found,
  isOurs,
  joined,
  markdownOf,
  tableOfWorkload,
  targetsOf,
  type Asked,
  type Row,
  type Unit,
} from './result.ts'
import { checkWritable, readState, writeWhole } from './state.ts'
import { workloadNames, type Level, type Workload, type WorkloadName } from './workload.ts'
import { prepare } from './workloads.ts'

const describe =
  'zerohop beside what else answers with ONNX models, each peer alone on the machine and in turns'
const reading = `requests/s by the number of callers; p50, p99 and CPU at the number in brackets; PSS is the most at any; a p99 of fewer than 100 requests is not shown. At a rate requests come at
the same times for all peers of a round. \`zerohop to it\` is zerohop in process to the peer at the number of
callers where it is the least ahead, within a round: of a peer over HTTP that is mostly HTTP, and \`in Fastify to it\`, the same behind Fastify, tells of the rest. A peer that failed has figures of the loads before, and
says where. What is asked takes the best of zerohop's rows in process, of which the one with OpenVINO's bfloat16 counts beside a peer in bfloat16 only. In process, latency at a rate has up to a millisecond by which a timer of
Node is late, of zerohop as of the other Node peers. How each is tuned: bench/peers/README.md.`

const { only, models = workloadNames, json, markdown } = options
const plan = planOf(options)
if (process.platform !== 'linux')
  command.error(
    `It measures on Linux only, where /proc has the figures of each process, not on ${process.platform}.`,
  )
const state = orError(() => {
  for (const file of [json, markdown]) if (file !== undefined) checkWritable(file)
  return readState(options.fresh ? undefined : json, plan)
})
endInOrder()
const { ended, others } = endLeftovers()
if (ended > 0) console.log(`${ended} processes were ended that a run before this one had left behind`)
if (others.length > 0)
  console.log(`process ${others.join(', ')} measures as well: figures mean nothing meanwhile`)

const peers = allPeers.filter(({ name }) => only === undefined || only.includes(name))

const isShown = ({ name }: Peer): boolean =>
  state.missing[name] !== undefined || state.units.some(({ peer }) => peer === name)
/** Those that the results have beside what is asked for now: their rows stay. */
const otherPeers = allPeers.filter((peer) => !peers.includes(peer) && isShown(peer))
const workloads: Workload[] = []
const missing: Record<string, string> = {}
for (const name of workloadNames) {
  if (!models.includes(name) && !state.units.some(({ workload }) => workload === name)) continue
  try {
    workloads.push(await prepare(name))
  } catch (error) {
    console.log(`${name} is left out: ${(error as Error).message}`)
  }
}

const versions: Record<string, Versions> = {}
for (const { name } of otherPeers) {
  if (state.versions[name] !== undefined) versions[name] = state.versions[name]
  if (state.missing[name] !== undefined) missing[name] = state.missing[name]
}
for (const peer of peers) {
  try {
    versions[peer.name] = await peer.setUp(options)
    console.log(
      `${peer.name}: ${Object.entries(versions[peer.name]!)
        .map(([name, version]) => `${name} ${version}`)
        .join(', ')}`,
    )
  } catch (error) {
    if (!(error instanceof PeerMissing)) throw error
    missing[peer.name] = error.message
    console.log(`${peer.name} is left out: ${error.message}`)
  }
}
if (options.setUpOnly) process.exit()

const has = (peer: Peer, { name }: Workload): boolean =>
  missing[peer.name] === undefined && (peer.lacks?.(name) ?? null) === null
const shownPeers = allPeers.filter((peer) => peers.includes(peer) || otherPeers.includes(peer))
const shownPairs = workloads.flatMap((workload) =>
  shownPeers.filter((peer) => has(peer, workload)).map((peer) => ({ peer, workload })),
)
const pairs = shownPairs.filter(({ peer, workload }) => isAsked(peer.name, workload.name))
const machine = machineFacts()
const build = ownBuild()
const stale = state.units.filter((unit) =>
  shownPairs.some(({ peer, workload }) => isOf(unit, peer, workload) && unit.of !== hashOf(peer, workload)),
)
state.units.splice(0, Infinity, ...state.units.filter((unit) => !stale.includes(unit)))
const again = stale.filter((unit) => isAsked(unit.peer, unit.workload))
if (again.length > 0)
  console.log(
    `${again.length} measurements are of another build, other settings or another machine, and are made again`,
  )
const dropped = new Set(
  stale.filter((unit) => !again.includes(unit)).map((unit) => `${unit.peer} with ${unit.workload}`),
)
if (dropped.size > 0)
  console.log(
    `of another build, other settings or another machine, not asked for now and dropped: ${[...dropped].join(', ')}`,
  )
const left = pairs.reduce(
  (count, { peer, workload }) =>
    count - state.units.filter((unit) => isOf(unit, peer, workload) && unit.error === null).length,
  pairs.length * plan.rounds,
)
console.log(
  `${pairs.length} pairs of peer and model, ${plan.rounds} rounds: about ${Math.ceil(expectedSeconds(plan, pairs) / 60)} minutes${state.units.length > 0 ? `, ${left} of ${pairs.length * plan.rounds} measurements left` : ''}`,
)
const decoders =
  (await decodersOf(pairs.find(({ workload }) => workload.jpeg)?.workload)) ?? state.decodersMs ?? null

for (let round = 0; round < plan.rounds; round++) {
  for (const workload of workloads) {
    const turn = pairs.filter((pair) => pair.workload === workload).map(({ peer }) => peer)
    for (const peer of round % 2 === 0 ? turn : turn.toReversed()) await measureOnce(peer, workload, round)
  }
}
report()

async function measureOnce(peer: Peer, workload: Workload, round: number): Promise<void> {
  const isSame = (unit: Unit): boolean => isOf(unit, peer, workload) && unit.round === round
  if (state.units.some((unit) => isSame(unit) && unit.error === null)) return
  const unit = await unitOf(peer, workload, round)
  if (isEnded.aborted) return new Promise(() => {}) // the process is about to end
  state.units.splice(0, Infinity, ...state.units.filter((other) => !isSame(other)), unit)
  const said = unit.levels?.map(
    (level) =>
      `${level.callers ?? `${level.ratePerSecond}/s`}: ${level.requestsPerSecond.toFixed(0)}/s p99 ${hasP99(level) ? level.p99Ms.toFixed(2) : '-'} ms`,
  )
  const all = [...(said ?? []), ...(unit.error === null ? [] : [`FAILED: ${unit.error}`])]
  console.log(`round ${round + 1}, ${workload.name}, ${peer.name}: ${all.join(' | ')}`)
  if (json !== undefined) writeResult(json, resultOf())
}

async function unitOf(peer: Peer, workload: Workload, round: number): Promise<Unit> {
  const key = { workload: workload.name, peer: peer.name, round, of: hashOf(peer, workload) }
  const loads = levelsOf(plan, peer, workload)
  const levels: LevelFigures[] = []
  let failure: string | null = null
  try {
    await measure(peer, workload, round, loads, levels)
  } catch (error) {
    failure = `round ${round + 1}, ${loadText(loads[levels.length])}: ${(error as Error).message}`
  }
  return {
    ...key,
    levels: levels.length === 0 ? null : levels,
    error: failure,
    date: new Date().toISOString(),
  }
}

/** Where a peer failed: what it gave at other loads stands. */
function loadText(load: Level | undefined): string {
  if (load === undefined) return 'at its end'
  return load.callers === undefined ? `at ${load.ratePerSecond}/s` : `with ${load.callers} callers`
}

function isAsked(peer: string, workload: WorkloadName): boolean {
  return models.includes(workload) && peers.some(({ name }) => name === peer)
}

function isOf(unit: Unit, peer: Peer, workload: Workload): boolean {
  return unit.peer === peer.name && unit.workload === workload.name
}

/** The decoder that answers to JPEGs are compared with, and that of all Node peers, is of the build too. */
function hashOf(peer: Peer, workload: Workload): string {
  const facts = [
    machine,
    versions[peer.name],
    settingsOf(peer, workload),
    levelsOf(plan, peer, workload),
    isOurs(peer.name) || workload.jpeg ? build.hash : null,
  ]
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 12)
}

/** Those of a peer that is not measured now may depend on what is no longer there. */
function settingsOf(peer: Peer, workload: Workload): object | null {
  try {
    return peer.settings(workload)
  } catch (error) {
    if (peers.includes(peer)) throw error
    return null
  }
}

/** What of the figures with JPEGs is the decoder's, in a line. */
async function decodersOf(workload: Workload | undefined): Promise<DecodersMs | null> {
  if (workload === undefined) return null
  const found = await decodersMs(workload.files, Object.keys(versions), plan.seconds)
  console.log(
    `decoding alone, CPU ms an image: ${Object.entries(found)
      .map(([name, ms]) => `${name} ${ms === null ? '-' : (ms as number).toFixed(2)}`)
      .join(', ')}`,
  )
  return found
}

function machineFacts(): { cores: number; cpu: string | undefined; node: string; onnxruntime: string } {
  const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }
  return {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model.trim(),
    node: process.versions.node,
    onnxruntime: version,
  }
}

function writeResult(file: string, result: object): void {
  writeWhole(file, `${JSON.stringify(result, withoutOwnPaths, 2)}\n`)
}

function resultOf(): Record<string, unknown> {
  const asked: Asked[] = workloads.map(({ name: workload, title, rates, inProcessRates }) => ({
    workload,
    title,
    peers: shownPeers.filter((peer) => workload !== 'mlp-binary' || peer.kind === 'http'),
    rates: [...rates.slice(0, plan.openLoops), ...(plan.openLoops > 1 ? inProcessRates : [])],
  }))
  const tables = asked.map((each) => tableOfWorkload(each, state.units, missing, plan))
  const targets = targetsOf(asked, state.units, plan)
  const found = new Found(state.units)
  const callers = plan.callers.includes(64) ? 64 : plan.callers[0]!
  const [ours, plain] = ['zerohop', 'same-thread-batcher'].map((name) =>
    found.at('mlp', name, { callers }, 'requestsPerSecond'),
  )
  const settings = {
    ...plan,
    versions,
    missing,
    ...(decoders === null ? {} : { decodersMs: decoders }),
    peers: Object.fromEntries(
      shownPairs.map(({ peer, workload }) => [`${peer.name}, ${workload.name}`, settingsOf(peer, workload)]),
    ),
  }
  return {
    trial: 'peers',
    describe,
    reading,
    ours,
    plain,
    unit: `requests/s of ${callers} callers, MLP in process, against a batcher on their own thread`,
    ratio: found.ratio('mlp', 'zerohop', 'same-thread-batcher', callers),
    settings,
    targets,
    met: targets.length > 0 && targets.every(({ met }) => met),
    rows: joined(tables),
    tables,
    numbers: numbersOf(found, plan.callers),
    smoke: options.smoke,
    quick: options.quick,
    shortened: shortenedOf(plan),
    machine,
    build,
    date:
      state.units
        .map(({ date }) => date)
        .sort()
        .at(-1) ?? new Date().toISOString(),
    details: { plan, units: state.units },
  }
}

function withoutNote(row: Row): Row {
  return Object.fromEntries(Object.entries(row).filter(([column]) => column !== 'note'))
}

function report(): void {
  const { tables, targets, ...result } = resultOf() as {
    tables: ReturnType<typeof tableOfWorkload>[]
    targets: ReturnType<typeof targetsOf>
  }
  for (const { title, rows } of tables) {
    if (rows.length > 0) console.log(`\n${title}\n${tableOf(rows.map(withoutNote))}`)
    for (const { peer, note } of rows) if (note !== '') console.log(`${peer}: ${note}`)
  }
  for (const { what, found, target, met } of targets)
    console.log(`${what}: ${found}, target ${target}: ${met ? 'met' : 'NOT met'}`)
  if (json !== undefined) writeResult(json, { ...result, targets, tables })
  if (markdown !== undefined) writeWhole(markdown, tables.map(markdownOf).join('\n'))
  if (options.smoke) console.log('a smoke run: the figures mean nothing')
}
