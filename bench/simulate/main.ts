import { writeFileSync } from 'node:fs'
import { Command, Option } from 'commander'
import type { OpenArrivals } from '../../packages/perf/src/simulation/traffic.ts'
import { bestFixed } from './best-fixed.ts'
import { parse } from './parse.ts'
import { bestFixedTable, resultTable, timelineTable } from './report.ts'
import {
  capacityPerSecond,
  defaultScenario,
  policyNames,
  type PolicyName,
  type Scenario,
} from './scenario.ts'
import { simulate } from './simulate.ts'

interface CommandLine extends Pick<
  Scenario,
  'burst' | 'rows' | 'service' | 'jitter' | 'instances' | 'models' | 'seed' | 'loadSteps' | 'serviceSteps'
> {
  readonly policies: readonly PolicyName[]
  readonly requests?: number
  readonly arrivals: 'poisson' | 'constant' | 'on-off'
  readonly trace?: OpenArrivals
  readonly rate?: number
  readonly load: number
  readonly on: number
  readonly off: number
  readonly maxBatchSize?: number
  readonly preferred: readonly number[]
  readonly delay: number
  readonly target: number
  readonly timeline: number
  readonly bestFixed?: boolean
  readonly sizes?: readonly number[]
  readonly delays: readonly number[]
  readonly json?: string
}

const help = `
Policies:
  none            every request is a run of its own
  window          a batch is sealed when full or --delay after its first request, whether or not an instance is idle
  triton          Triton's dynamic batcher as it is written, with payloads that grow and merge
  zerohop         the library's queue: a batch is closed when an instance is idle, full batches handed ahead
  zerohop-target  the same with a latency target: it chooses the size and refuses what would be late

All meet the same requests and the same service times. The last line is RESULT and the results as JSON.`

const table = (scenario: Scenario) => scenario.service.map(({ rows, ms }) => `${rows}:${ms}`).join(',')

const options = new Command('npm run simulate --')
  .option('--policies <names>', `of ${policyNames.join(', ')}`, parse.policies, [...policyNames])
  .option('--requests <count>', 'requests that arrive (default: 200000; 0 with --burst)', parse.countOr0)
  .option('--burst <count>', 'requests at time 0 on top of them', parse.countOr0, 0)
  .addOption(
    new Option('--arrivals <kind>', 'how they come')
      .choices(['poisson', 'constant', 'on-off'])
      .default('poisson'),
  )
  .option(
    '--trace <file>',
    'they come at these times instead: a line each of milliseconds, or milliseconds,rows',
    parse.trace,
  )
  .option('--load <share>', 'how many: of what the instances can do at best, on average', parse.above0, 0.8)
  .option('--rate <requests>', 'how many a second instead; with on-off, while on', parse.above0)
  .option('--on <ms>', 'length of a burst of on-off', parse.above0, 1000)
  .option('--off <ms>', 'length of the pause after it', parse.atLeast0, 1000)
  .option('--load-steps <ms:factor,...>', 'changes of the rate', parse.steps, [])
  .option('--rows <rows:share,...>', 'rows of a request', parse.rows, defaultScenario.rows)
  .option('--service <rows:ms,...>', `what runs take (default: ${table(defaultScenario)})`, parse.service)
  .option('--service-steps <ms:factor,...>', 'changes of what runs take', parse.steps, [])
  .option('--jitter <share>', 'by how much runs of one size differ: 0.1 for about 10 %', parse.atLeast0, 0)
  .option('--instances <count>', 'runs that can go on at once', parse.count, 1)
  .option(
    '--models <count>',
    'each with a queue and arrivals of its own, on the same instances',
    parse.count,
    1,
  )
  .option('--max-batch-size <rows>', 'default: the largest size of --service', parse.count)
  .option('--preferred <rows,...>', 'preferred batch sizes', parse.sizes, [])
  .option(
    '--delay <ms>',
    'longest queue delay, or length of the window',
    parse.atLeast0,
    defaultScenario.maxQueueDelayMs,
  )
  .option('--target <ms>', 'an answer is in time up to this latency', parse.above0, defaultScenario.targetMs)
  .option('--seed <number>', 'other requests and other jitter', parse.count, defaultScenario.seed)
  .option('--timeline <ms>', 'separate figures for intervals of this length', parse.above0, 0)
  .option('--best-fixed', 'also look for the best fixed size and delay of zerohop, of --sizes and --delays')
  .option('--sizes <rows,...>', 'default: those of --service', parse.sizes)
  .option('--delays <ms,...>', 'delays to try', parse.numbers, [0, 2, 5, 10, 20])
  .option('--json <file>', 'write the result there as well')
  .addHelpText('after', help)
  .parse()
  .opts<CommandLine>()

const {
  service = defaultScenario.service,
  burst,
  requests = burst > 0 ? 0 : defaultScenario.requests,
} = options
const { loadSteps, serviceSteps, rows, jitter, instances, models, seed } = options
const base: Scenario = {
  ...defaultScenario,
  requests,
  burst,
  loadSteps,
  rows,
  service,
  jitter,
  serviceSteps,
  instances,
  models,
  seed,
  maxBatchSize: options.maxBatchSize ?? service.at(-1)!.rows,
  preferredBatchSizes: options.preferred,
  maxQueueDelayMs: options.delay,
  targetMs: options.target,
  timelineMs: options.timeline,
}
const scenario: Scenario = { ...base, arrivals: options.trace ?? arrivalsOf(base) }

const { arrivals, policy: _, ...settings } = scenario
console.log(
  `${instances} instances, ${models} models, batches of up to ${scenario.maxBatchSize} rows, target ${scenario.targetMs} ms`,
)
console.log(`arrivals: ${arrivals.kind === 'trace' ? 'from a trace' : JSON.stringify(arrivals)}`)

const results = options.policies.map((policy) => simulate({ ...scenario, policy }))
console.log(resultTable(results))
if (scenario.timelineMs > 0)
  for (const result of results) console.log(`${result.policy}:\n${timelineTable(result)}`)

const best = options.bestFixed
  ? bestFixed(scenario, options.sizes ?? service.map((point) => point.rows), options.delays)
  : null
if (best !== null) console.log(`Fixed configurations:\n${bestFixedTable(best)}`)

const result = {
  scenario: { ...settings, arrivals: arrivals.kind === 'trace' ? 'trace' : arrivals },
  results,
  bestFixed: best,
}
if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(result, null, 2)}\n`)
console.log(`RESULT ${JSON.stringify(result)}`)

function arrivalsOf(scenario: Scenario): OpenArrivals {
  const { arrivals: kind, on: onMs, off: offMs } = options
  const busyShare = kind === 'on-off' ? onMs / (onMs + offMs) : 1
  const ratePerSecond = options.rate ?? (options.load * capacityPerSecond(scenario)) / busyShare
  return kind === 'on-off' ? { kind, ratePerSecond, onMs, offMs } : { kind, ratePerSecond }
}
