import { readFileSync } from 'node:fs'
import { InvalidArgumentError, Option, type Command } from 'commander'
import type { ModelOptions } from '../index.ts'
import { above, collect, whole } from './perf-values.ts'

/** Options of `zerohop tune`, as commander has them. */
export interface TuneOptions {
  readonly latencyP99?: number
  readonly memory?: number
  readonly budget: number
  readonly concurrency?: number
  readonly rate?: number
  readonly batchSize: number
  readonly shape: readonly (readonly [name: string, dims: readonly number[]])[]
  readonly inputData: string
  readonly instances?: readonly number[]
  readonly threads?: readonly number[]
  readonly maxBatchSizes?: readonly number[]
  readonly delays?: readonly number[]
  readonly kind: string
  readonly config: ModelOptions
  readonly output?: string
  readonly format: 'json' | 'pbtxt'
  readonly state?: string
  readonly fresh: boolean
  readonly json: boolean
}

/** Adds them. */
export function addTuneOptions(command: Command): Command {
  return command
    .optionsGroup('Goal:')
    .option('--latency-p99 <ms>', 'the best throughput of which 99 of 100 requests are answered within so long', above(0))
    .option('--memory <MB>', 'most memory of the process, with weights, arenas and staging memory, in megabytes', above(0))
    .addOption(new Option('--concurrency <callers>', 'tune for so many callers that each wait for their answer (default: two full batches for each instance)').argParser(whole(1)).conflicts('rate'))
    .option('--rate <requests>', 'tune for so many requests a second, at random moments: the lowest p99 of those that keep up', above(0))
    .option('--budget <seconds>', 'longest time of all together', above(0), 120)
    .optionsGroup('Requests:')
    .option('-b, --batch-size <rows>', 'rows of a request', whole(1), 1)
    .option('--shape <name:dims>', 'dims of an input that the model leaves open, without the batch dimension; may be given several times', collect(shape), [])
    .option('--input-data <what>', 'random, zero, or a file or folder with requests, as of zerohop perf', 'random')
    .optionsGroup('What is searched:')
    .option('--instances <counts>', 'numbers of instances (default: 1, 2, 4 ... as many as cores)', list(whole(1, 1024)))
    .option('--threads <counts>', "intra-op threads of each (default: as many as the machine's cores allow for)", list(whole(1, 1024)))
    .option('--max-batch-sizes <rows>', 'most rows in a run (default: 1, 2, 4 ... 128); given, rows are believed to be independent', list(whole(1)))
    .option('--delays <ms>', 'longest waits for a batch to grow (default: 0, and parts of what a run takes)', list(above(0, true)))
    .option('--kind <kind>', 'where instances run: auto, cpu, cuda, webgpu', 'auto')
    .option('--config <file>', 'JSON of other options to load the model with, which stay as they are', config, {})
    .optionsGroup('Results:')
    .option('-o, --output <file>', 'the configuration that was found (default: zerohop-config.json, or config.pbtxt)')
    .addOption(new Option('--format <format>', 'for engine.load(), or for a model repository').choices(['json', 'pbtxt']).default('json'))
    .option('--state <file>', 'what was measured, for the next call to go on from (default: beside the output)')
    .option('--fresh', 'forget what was measured', false)
    .option('-j, --json', 'print JSON', false)
}

const list = (value: (text: string) => number) => (text: string): number[] => [...new Set(text.split(',').map(value))]

function shape(text: string): [string, number[]] {
  const [, name, dims] = /^(.+):(\d+(?:,\d+)*)?$/.exec(text) ?? []
  if (name === undefined) throw new InvalidArgumentError('It has to be the name of an input and its dims, such as tokens:128.')
  return [name, dims === undefined ? [] : dims.split(',').map(whole(1))]
}

function config(path: string): ModelOptions {
  const read = () => {
    try {
      return JSON.parse(readFileSync(path, 'utf8')) as unknown
    } catch (error) {
      throw new InvalidArgumentError(`It cannot be read: ${(error as Error).message}.`)
    }
  }
  const found = read()
  if (typeof found !== 'object' || found === null || Array.isArray(found)) throw new InvalidArgumentError('It has to be a JSON object.')
  const { path: _, ...options } = found as Record<string, unknown>
  return options as ModelOptions
}
