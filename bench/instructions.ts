// Counts the instructions of one request to the identity model, by thread and by what they are spent on:
// tsx bench/instructions.ts [sides]. It needs valgrind and takes some minutes.
import { instructionParts, instructionsPerRequest } from './callgrind.ts'
import { benchModel } from './models.ts'
import type { OurSide } from './side.ts'
import { tableOf } from './table.ts'

const sides =
  process.argv.length > 2 ? process.argv.slice(2) : ['native, inline: false', 'native, all inline', 'binding']
const asked = { model: benchModel('identity'), maxBatchSize: 64, callers: 1 }
const rows = (sides as OurSide[]).flatMap((executor) =>
  instructionsPerRequest(executor, asked, [20_000, 45_000]).map(({ thread, all, parts }) => ({
    executor,
    thread,
    instructions: all,
    ...Object.fromEntries(instructionParts.map((part) => [part, parts[part] ?? 0])),
  })),
)
console.log(tableOf(rows))
