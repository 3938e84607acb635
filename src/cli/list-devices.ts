import { Command } from 'commander'
import { lookAround } from './device-report.ts'
import { devicesText } from './devices-text.ts'
import { tell, printJson } from './command-line.ts'

/** `zerohop devices`: what models would run on, and why. */
export const devices = new Command('devices')
  .description(
    'show what models run on here, and why: cores, GPUs, execution providers, executor and staging memory',
  )
  .option('-j, --json', 'print JSON', false)
  .action(async ({ json }: { json: boolean }) => {
    const report = await lookAround()
    if (json) printJson(report)
    else process.stdout.write(devicesText(report))
    if (report.error === undefined) return
    tell(report.error)
    process.exitCode = report.error.exitCode
  })
