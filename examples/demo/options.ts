import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { ImageChannels, ImageFit, ImageLayout } from 'zerohop/image'
import { UsageError } from './usage-error.ts'

const DIGITS = fileURLToPath(new URL('../digits/', import.meta.url))

/** What the command line said; what it left out is found from the model. */
export interface DemoOptions {
  model: string
  /** Path of the labels, one a line; none for a model given without them. */
  labels?: string
  files: string[]
  jobs: number
  delay: number
  /** Whether the table has a row for every file. */
  all: boolean
  channels?: ImageChannels
  layout?: ImageLayout
  fit?: ImageFit
  size?: { width: number; height: number }
  scale?: number
  mean?: number[]
  std?: number[]
}

/** Reads the command line; `arguments_` as in `process.argv.slice(2)`. */
export function parseOptions(arguments_: readonly string[], command: Command = new Command()): DemoOptions {
  command
    .name('npm run demo --')
    .description(
      'Classifies images through many concurrent jobs in one process. Without files: the held-out digits.',
    )
    .argument('[files...]', 'images')
    .option('--model <file>', 'ONNX image classifier (default: the digits)')
    .option('--labels <file>', 'names of the classes, one a line')
    .option('--jobs <count>', 'concurrent jobs', wholeNumber, 100)
    .option('--delay <ms>', 'how long an unfilled batch waits for more images', milliseconds, 5)
    .option('--all', 'a row of the table for every image, not for 20 of them', false)
    .addOption(
      new Option('--channels <order>', 'channels (default: gray or rgb, from the model)').choices([
        'rgb',
        'bgr',
        'gray',
      ]),
    )
    .addOption(
      new Option('--layout <layout>', 'order of the dims (default: from the model)').choices([
        'nchw',
        'nhwc',
      ]),
    )
    .addOption(
      new Option('--fit <fit>', 'how other proportions are made to fit').choices([
        'cover',
        'contain',
        'fill',
      ]),
    )
    .option('--size <size>', 'width and height, as 224 or 320x240 (default: from the model)', sizeOf)
    .option('--scale <factor>', 'factor on the pixels 0..255, such as 1/255', number)
    .option('--mean <numbers>', 'taken off the scaled pixels; one, or one per channel with commas', numbers)
    .option('--std <numbers>', 'divisor after that; one, or one per channel with commas', numbers)
    .parse(arguments_, { from: 'user' })
  const options = command.opts<Omit<DemoOptions, 'files' | 'model'> & { model?: string }>()
  if (options.model === undefined) {
    const files = command.args.length > 0 ? command.args : digitFiles()
    return { labels: join(DIGITS, 'labels.txt'), ...options, model: join(DIGITS, 'model.onnx'), files }
  }
  if (command.args.length === 0)
    throw new UsageError('no images: name the files to classify after the options')
  return { ...options, model: options.model, files: command.args }
}

/** The lines of the labels file; undefined when there is none to read. */
export function readLabels(path: string | undefined): string[] | undefined {
  if (path === undefined) return undefined
  try {
    return readFileSync(path, 'utf8').trimEnd().split(/\r?\n/)
  } catch (error) {
    throw new UsageError(`the labels file cannot be read: ${(error as Error).message}`)
  }
}

function digitFiles(): string[] {
  const folder = join(DIGITS, 'images')
  return readdirSync(folder)
    .filter((name) => name.endsWith('.png'))
    .toSorted()
    .map((name) => relative('', join(folder, name)))
}

function number(text: string): number {
  const [, above, below = '1'] = /^([^/]+)(?:\/([^/]+))?$/.exec(text) ?? []
  const value = Number(above) / Number(below)
  if (Number.isFinite(value)) return value
  throw new InvalidArgumentError('A number or a fraction is expected.')
}

function milliseconds(text: string): number {
  const value = number(text)
  if (value >= 0 && value < 2 ** 31) return value
  throw new InvalidArgumentError('Milliseconds are expected, 0 or more and less than 2^31.')
}

function numbers(text: string): number[] {
  return text.split(',').map(number)
}

function wholeNumber(text: string): number {
  if (/^[1-9]\d*$/.test(text)) return Number(text)
  throw new InvalidArgumentError('A whole number of at least 1 is expected.')
}

function sizeOf(text: string): { width: number; height: number } {
  const [, width, height = width] = /^(\d+)(?:x(\d+))?$/.exec(text) ?? []
  if (width !== undefined) return { width: Number(width), height: Number(height) }
  throw new InvalidArgumentError('A size such as 224 or 320x240 is expected.')
}
