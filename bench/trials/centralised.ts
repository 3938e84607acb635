import { CpuWatch } from '../cpu-watch.ts'
import { run, start } from '../child.ts'
import { MemoryWatch } from '../memory.ts'
import { benchModel, type BenchModel } from '../models.ts'
import { takeTurns } from '../rounds.ts'
import { shown } from '../shown.ts'
import { median, round } from '../statistics.ts'
import { atLeast } from '../targets.ts'
import type { Trial } from '../trial.ts'

const callers = 100

/** A way to have jobs done. */
interface Way {
  readonly what: string
  readonly jobs: number
  run(watched: (pid: number, ended: Promise<unknown>) => void): Promise<void>
}

interface Run {
  readonly seconds: number
  readonly peakMb: number
  readonly peakCores: number
}

/** A process per job that loads the model, uses it once and ends; so many at a time. */
function processPerJob(model: BenchModel, jobs: number, atOnce: number): Way {
  return {
    what: `a process per job, ${atOnce} at a time`,
    jobs,
    async run(watched) {
      let next = 0
      const lane = async () => {
        while (next < jobs) {
          const { child, result } = start('baselines/job.mjs', { model, image: next++ })
          watched(child.pid!, result)
          await result
        }
      }
      await Promise.all(Array.from({ length: atOnce }, lane))
    },
  }
}

/** One process whose engine has all jobs, 100 at a time; its start and the load are part of the time, and so is the process that tries the model before. */
function oneEngine(model: BenchModel, jobs: number, instances: number, batching: boolean): Way {
  const config = {
    instanceGroup: [{ count: instances }],
    ...(batching ? { maxBatchSize: 8, dynamicBatching: { maxQueueDelayMs: 100 } } : { maxBatchSize: 0 }),
  }
  const dispatch = batching ? 'batches of up to 8, delay 100 ms' : 'no batching'
  return {
    what: `one engine, ${callers} jobs at once, ${instances} instance${instances === 1 ? '' : 's'}, ${dispatch}`,
    jobs,
    async run(watched) {
      const { child, result } = start(
        'programs/jobs-ours.mjs',
        { engine: {}, model, images: jobs, jobs: callers, config },
        [],
        { ZEROHOP_VERIFY: 'child' },
      )
      watched(child.pid!, result)
      await result
    },
  }
}

async function measured(way: Way): Promise<Run> {
  const [memory, cpu] = [new MemoryWatch(250), new CpuWatch()]
  const startMs = performance.now()
  try {
    await way.run((pid, ended) => {
      const gone = () => [memory, cpu].forEach(({ pids }) => pids.delete(pid))
      for (const { pids } of [memory, cpu]) pids.add(pid)
      ended.then(gone, gone)
    })
    return {
      seconds: (performance.now() - startMs) / 1000,
      peakMb: memory.peakBytes / 2 ** 20,
      peakCores: cpu.peakCores,
    }
  } finally {
    memory.stop()
    cpu.stop()
  }
}

/** The experiment that servers are shown with: a model opened by each job, or once for all of them. */
export const centralised: Trial = {
  describe:
    'ResNet-152, 1000 jobs: a process each, 1 to 8 at a time, against 100 jobs at once on one engine with 1 to 8 instances',
  reading:
    'A published form of this experiment, with a server, reached 3.75x. More instances add nothing where the threads of one fill all cores (the column of peak cores): there, they divide them. A batch adds what is saved by reading the weights once for its rows.',
  async run({ quick, smoke, rounds }) {
    const model = benchModel(smoke ? 'mlp' : 'resnet152')
    // What a process does for its job does not depend on how many come before it: fewer give the same rate.
    const [ownJobs, sharedJobs] = smoke ? [8, 200] : quick ? [24, 300] : [200, 1000]
    const processes = [1, 2, 4, 8].map((atOnce) => processPerJob(model, ownJobs, atOnce))
    const engines = [
      oneEngine(model, sharedJobs, 1, false),
      ...[1, 2, 4, 8].map((instances) => oneEngine(model, sharedJobs, instances, true)),
    ]
    const ways = [...processes, ...engines]
    await run('baselines/job.mjs', { model, image: 0 }) // a file that was never read would make the first row slow
    const found = await takeTurns(
      quick ? 1 : rounds,
      Object.fromEntries(ways.map((way) => [way.what, () => measured(way)])),
    )
    const rateOf = ({ what, jobs }: Way) => jobs / median(found[what]!.map(({ seconds }) => seconds))
    const best = (among: readonly Way[]) => Math.max(...among.map(rateOf))
    const firstBest = best(processes)
    const rows = ways.map((way) => ({
      what: way.what,
      jobs: way.jobs,
      seconds: round(way.jobs / rateOf(way), 1),
      'images/s': round(rateOf(way)),
      'peak PSS MB': round(median(found[way.what]!.map(({ peakMb }) => peakMb)), 0),
      'peak cores': round(median(found[way.what]!.map(({ peakCores }) => peakCores)), 1),
      'to the best of processes': round(rateOf(way) / firstBest),
    }))
    const ratio = round(best(engines) / firstBest)
    return {
      ours: round(best(engines)),
      plain: round(firstBest),
      unit: 'images/s, start and load included',
      ratio,
      numbers: [{
        question: `ResNet-152, jobs of an image each: a process per job at its best, or one engine for ${callers} at once`,
        plain: `${shown(firstBest)} images/s`, zerohop: `${shown(best(engines))} images/s`, note: `${ratio} x`,
      }], // prettier-ignore
      targets: [atLeast(5, 'images/s, the best engine to the best number of processes', ratio)],
      rows,
      settings: { callers, jobsOfProcesses: ownJobs, jobsOfEngines: sharedJobs },
      details: found,
    }
  },
}
