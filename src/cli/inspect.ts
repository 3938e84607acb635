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
    "show a model's inputs, outputs, operators and parameters, whether requests can share runs, and what an engine would refuse",
  )
  .argument('<model>', 'path of an .onnx or .ort file')
  .option(
    '-r, --run',
    'also run the model, in its own process, to find out whether requests can share runs',
    false,
  )
  .option('-t, --timeout <seconds>', 'time limit of --run', seconds, openingLimitMs / 1000)
  .option('-j, --json', 'print JSON', false)
  .addHelpText(
    'after',
    '\nWithout --run the model is opened only if its file is incomplete (types, or shapes of outputs, are missing,\nor it is an .ort file). Weights are not read.',
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
  throw new InvalidArgumentError('Expected a number of seconds, at most a day.')
}
