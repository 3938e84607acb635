import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, cpus } from 'node:os'
import { dirname } from 'node:path'
import { ownBuild } from './own-build.ts'
import { withoutOwnPaths } from './own-paths.ts'
import { tableOf } from './table.ts'
import { TrialSkipped, type Trial, type TrialOptions, type TrialResult } from './trial.ts'

/** What is said on the command line; the trial knows how long its measurements are. */
export interface RunOptions extends Omit<TrialOptions, 'seconds'> {
  readonly seconds?: number
}

/** Runs a trial, prints its table and its result, and writes that to `file`, if there is one, with the single measurements. */
export async function runTrial(
  name: string,
  trial: Trial,
  options: RunOptions,
  file: string | undefined,
): Promise<void> {
  const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string }
  const machine = {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model.trim(),
    node: process.versions.node,
    onnxruntime: version,
  }
  console.log(`${name}: ${trial.describe}`)
  console.log(
    `${machine.cores} cores (${machine.cpu}), Node ${machine.node}, ONNX Runtime ${machine.onnxruntime}`,
  )

  const build = ownBuild()
  const measured = await measure(name, trial, options)
  if (measured === null) return
  const { details, rows, targets, ...figures } = measured

  const { reading } = trial
  for (const table of figures.tables ?? [{ title: '', rows }]) {
    if (table.title !== '') console.log(table.title)
    console.log(tableOf(table.rows))
  }
  if (reading !== undefined) console.log(reading)
  console.log(`settings: ${JSON.stringify(figures.settings)}`)
  for (const { what, found, target, met } of targets)
    console.log(`${what}: ${found}, target ${target}: ${met ? 'met' : 'NOT met'}`)

  const { smoke, quick } = options
  const met = targets.every((target) => target.met)
  const result = {
    trial: name,
    describe: trial.describe,
    reading,
    ...figures,
    targets,
    met,
    rows,
    smoke,
    quick,
    machine,
    build,
    date: new Date().toISOString(),
  }
  if (file !== undefined) {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, `${JSON.stringify({ ...result, details }, withoutOwnPaths, 2)}\n`)
  }
  if (smoke) console.log('a smoke run: the figures mean nothing')
  console.log(`RESULT ${JSON.stringify(result)}`)
}

/** `null` where the trial cannot be run. */
async function measure(name: string, trial: Trial, options: RunOptions): Promise<TrialResult | null> {
  const { seconds, smoke, rounds } = options
  try {
    return await trial.run({
      ...options,
      seconds: seconds ?? (smoke ? 0.3 : (trial.seconds ?? 0)),
      rounds: smoke ? 1 : rounds,
    })
  } catch (error) {
    if (!(error instanceof TrialSkipped)) throw error
    console.log(`${name}${error.message}`)
    return null
  }
}
