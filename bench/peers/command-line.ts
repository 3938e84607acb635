import { Command, InvalidArgumentError } from 'commander'
import { above0, count } from '../argument-values.ts'
import type { PeerOptions } from './peer.ts'
import { peers } from './peers.ts'
import { workloadNames, type WorkloadName } from './workload.ts'

/** What is said on the command line. */

const oneOf =
  (names: readonly string[]) =>
  (value: string): string[] => {
    const asked = value.split(',').map((name) => name.trim())
    const unknown = asked.filter((name) => !names.includes(name))
    if (unknown.length > 0)
      throw new InvalidArgumentError(`Unknown: ${unknown.join(', ')}. There are: ${names.join(', ')}.`)
    return asked
  }

const help = `
Peers, each alone on the machine and in turns:
${peers.map(({ name, describe }) => `  ${name.padEnd(26)}${describe}`).join('\n')}

What a peer needs is made on first use below .cache/peers; one that cannot be had is a row that says why. It measures what is in
dist/: run \`npm run build:ts\` first, and leave the machine alone meanwhile. With --json what was measured is kept after each
peer, and the same command goes on where it was ended; what is of another build, other settings or another machine is made
again. Rows of
peers and models that --only and --models leave out stay where they are still of that. Ctrl-C ends what was started. See bench/peers/README.md.`

export interface CommandLine extends PeerOptions {
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

export const command = new Command('npm run bench:peers --')
  .option('--quick', 'a round of seconds: 1 and 64 callers, one rate', false)
  .option('--smoke', 'only a look at whether they run: 8 callers and one rate, fractions of a second', false)
  .option('--only <peers>', 'these, with commas between', oneOf(peers.map(({ name }) => name)))
  .option('--models <models>', workloadNames.join(', '), oneOf(workloadNames))
  .option('--rounds <rounds>', 'how often the peers take turns (default: 3)', count)
  .option('--seconds <seconds>', 'length of one measurement, twice that for images (default: 4)', above0)
  .option('--json <file>', 'write the result there, and go on from what is there')
  .option('--markdown <file>', 'write the tables there')
  .option('--fresh', 'begin anew although --json has results', false)
  .option(
    '--triton-backends <folder>',
    "Triton's back ends, where `onnxruntime` is built; see bench/peers/README.md",
  )
  .option('--set-up-only', 'make what the peers need, and measure nothing', false)
  .addHelpText('after', help)
  .parse()

export const options = command.opts<CommandLine>()

/** What it gives, or the end with what it throws. */
export function orError<T>(give: () => T): T {
  try {
    return give()
  } catch (error) {
    return command.error((error as Error).message)
  }
}
