import { Command, InvalidArgumentError } from 'commander'
import { tell, printJson } from './command-line.ts'
import { inspectModel } from './inspection.ts'
import { inspectionText } from './inspection-text.ts'
import { openingLimitMs } from './open-in-child.ts'

interface InspectOptions {
  readonly run: boolean
  readonly timeout: number
  readonly json: boolean
}

/** `zerohop inspect model.onnx`: what a model consists of, and how it would be served. */
export const inspect = new Command('inspect')
  .description(
    "show a model's inputs, outputs, operators and parameters, whether requests can share runs, and what would be refused",
  )
  .argument('<model>', 'path of an .onnx or .ort file')
  .option(
    '-r, --run',
    'open the model as well, in a process of its own, and find out by running whether requests can share runs',
    false,
  )
  .option('-t, --timeout <seconds>', 'how long that may take', seconds, openingLimitMs / 1000)
  .option('-j, --json', 'print JSON', false)
  .addHelpText(
    'after',
    '\nWeights are not read, and the model is not opened without --run, but for what its file does not say (a type or a shape of an\noutput, anything of an .ort file).',
  )
  .action(async (path: string, { run, timeout, json }: InspectOptions) => {
    const inspection = await inspectModel(path, run, timeout * 1000)
    if (json) printJson(inspection)
    else process.stdout.write(inspectionText(inspection))
    const { error } = inspection
    if (error === undefined) return
    tell(error)
    process.exitCode = error.exitCode
  })

function seconds(text: string): number {
  const value = Number(text)
  if (Number.isFinite(value) && value > 0 && value <= 86_400) return value
  throw new InvalidArgumentError('It has to be a number of seconds, up to a day.')
}
