import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checked, floatsOf, type Sample } from './answers.ts'
import { arrivalsWithin, isOpen, withArrivals } from './arrivals.ts'
import { inPassingFolder } from './ending.ts'
import { httpClient, readSamples, writeRequests } from './http-client.ts'
import { LevelWatch, type LevelFigures, type LoopEnd } from './level-run.ts'
import type { Command, HttpPeer, InProcessPeer, Peer } from './peer.ts'
import { ProcessTree } from './process-tree.ts'
import { freePorts, startLimitSeconds, unlessEnded, whenReady } from './server-start.ts'
import type { Level, LoopInput, Workload } from './workload.ts'

/**
 * Starts a peer, holds each load, and ends it; what it writes beside its own files goes with it.
 *
 * @param round decides when the requests of open loops come.
 * @param found gets the figures of each level as it is over: what a peer does at one says nothing against those before.
 */
export function measure(
  peer: Peer,
  workload: Workload,
  round: number,
  loads: readonly Level[],
  found: LevelFigures[],
): Promise<void> {
  return inPassingFolder((folder) => {
    const levels = withArrivals(workload.name, round, loads, folder)
    return peer.kind === 'http'
      ? overHttp(peer, workload, levels, found, folder)
      : inProcess(peer, workload, levels, found, folder)
  })
}

async function inProcess(
  peer: InProcessPeer,
  workload: Workload,
  levels: readonly Level[],
  found: LevelFigures[],
  folder: string,
): Promise<void> {
  const { name, model, jpeg, maxBatchSize, files } = workload
  const input: LoopInput = {
    workload: { name, model, jpeg, maxBatchSize, files },
    levels,
    settings: peer.settings(workload),
  }
  const command = atHome(peer.program(workload, levels), folder)
  // It goes on to its next level by itself: what it says of that may come before we have seen to the one before.
  let current = 0
  const tree = new ProcessTree({ ...command, args: [...command.args, JSON.stringify(input)] }, (line) => {
    if (watches[current]?.onLine(line)) current++
  })
  const watches = levels.map(() => new LevelWatch(tree))
  try {
    for (const [index, level] of levels.entries()) {
      const watch = watches[index]!
      const end = await unlessEnded(tree, watch.ended, limitSeconds(level) + startLimitSeconds)
      const samples = end.samples!.map(({ index, values }) => ({
        index,
        values: floatsOf(Buffer.from(values, 'base64')),
      }))
      found.push(figures(level, end, watch, checked(workload, samples, peer.lowPrecision)))
    }
  } finally {
    await tree.end()
  }
}

async function overHttp(
  peer: HttpPeer,
  workload: Workload,
  levels: readonly Level[],
  found: LevelFigures[],
  folder: string,
): Promise<void> {
  const client = await httpClient()
  const ports = await freePorts(5)
  const [requestsFile, samplesFile] = ['requests', 'samples'].map((name) => join(folder, name)) as [
    string,
    string,
  ]
  const requests = workload.files.map((file) => peer.request(workload, readFileSync(file)))
  writeRequests(requestsFile, ports[0]!, requests)
  const tree = new ProcessTree(atHome(peer.server(workload, ports, folder), folder))
  try {
    await whenReady(tree, ports[0]!, peer, requests[0]!)
    for (const level of levels) {
      const { callers = 0, warmupSeconds, warmupRequests, seconds, arrivals } = level
      const watch = new LevelWatch(tree)
      const args = [
        ports[0],
        requestsFile,
        samplesFile,
        callers,
        warmupSeconds,
        warmupRequests,
        seconds,
        arrivals ?? [],
      ]
        .flat()
        .map(String)
      const load = new ProcessTree({ file: client, args }, (line) => watch.onLine(line))
      try {
        const end = await unlessEnded(
          tree,
          unlessEnded(load, watch.ended, limitSeconds(level)),
          limitSeconds(level),
        )
        if (!load.hasEnded) await once(load.root, 'exit')
        const samples: Sample[] = readSamples(samplesFile).map(({ index, response }) => ({
          index,
          values: peer.answer(workload, response),
        }))
        found.push(figures(level, end, watch, checked(workload, samples, peer.lowPrecision)))
      } finally {
        await load.end()
      }
    }
  } finally {
    await tree.end()
  }
}

/** With a folder for what programs keep of themselves: workspaces, identifications, files by which they know of each other. */
const atHome = (command: Command, folder: string): Command => ({
  ...command,
  env: { HOME: folder, TMPDIR: folder, TEMP: folder, ...command.env },
})

/** For a level of this length nothing takes longer, a slow server's drain included. */
const limitSeconds = ({ warmupSeconds, seconds }: Level): number => 3 * (warmupSeconds + seconds) + 240

function figures(
  level: Level,
  end: LoopEnd,
  watch: LevelWatch,
  check: Pick<LevelFigures, 'checked' | 'difference'>,
): LevelFigures {
  const { callers, ratePerSecond } = level
  if (end.failed > 0) throw new Error(`${end.failed} requests were answered by an error`)
  if (end.answered === 0 && callers !== undefined)
    throw new Error('no request was answered within the window')
  return {
    callers: callers ?? null,
    ratePerSecond: ratePerSecond ?? null,
    requestsPerSecond: end.answered / end.seconds,
    latencies: isOpen(level) ? arrivalsWithin(level) : end.answered,
    p50Ms: end.p50Us / 1000,
    p90Ms: end.p90Us / 1000,
    p99Ms: end.p99Us / 1000,
    maxMs: end.maxUs / 1000,
    failed: end.failed,
    unfinished: end.unfinished,
    ...watch.accounts(end),
    ...check,
  }
}
