// Instructions of one request, by thread and by what they are spent on: tsx bench/instructions.ts. It needs valgrind and
// takes some minutes. All runs are handed over: so slowed down none is short enough to be inline. Two runs of different length are set against each other, so that start and warming up fall out.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Table from 'cli-table3'
import { instructionsOf, type Instructions } from './callgrind.ts'
import { benchModel } from './models.ts'
import { ourSides, type OurSide } from './side.ts'

const [fewer, more] = [3000, 7000]
const program = fileURLToPath(new URL('programs/requests.mjs', import.meta.url))
const { path, input, rowDims } = benchModel('identity')
const sum = (instructions: Instructions) => Object.values(instructions).reduce((a, b) => a + b, 0)

/** By thread, the application's first. */
function instructions(side: OurSide, requests: number): Instructions[] {
  const folder = mkdtempSync(join(tmpdir(), 'zerohop-'))
  try {
    const options = [
      '--tool=callgrind',
      '--smc-check=all-non-file',
      '--separate-threads=yes',
      `--callgrind-out-file=${folder}/out`,
    ]
    const told = JSON.stringify({ engine: ourSides[side], path, input, rowDims, requests })
    const { status, stderr, error } = spawnSync('valgrind', [...options, process.execPath, program, told], {
      encoding: 'utf8',
      env: { ...process.env, ZEROHOP_CACHE: 'off', ZEROHOP_VERIFY: 'none' },
    })
    if (status !== 0)
      throw new Error(`valgrind ended with ${error?.message ?? `code ${status}: ${stderr.slice(-2000)}`}`)
    const files = readdirSync(folder).filter((name) => name.startsWith('out-'))
    return files.toSorted().map((name) => instructionsOf(join(folder, name)))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function perRequest(few: Instructions = {}, many: Instructions): Instructions {
  return Object.fromEntries(
    Object.entries(many).map(([part, count]) => [
      part,
      Math.round((count - (few[part] ?? 0)) / (more - fewer)),
    ]),
  )
}

const parts = [
  'compiled JavaScript',
  'Node and V8',
  'addon',
  "onnxruntime-node's binding",
  'ONNX Runtime',
  'C library',
]
const table = new Table({
  head: ['executor', 'thread', 'instructions', ...parts],
  style: { head: [], border: [], compact: true },
})
const sides = process.argv.length > 2 ? process.argv.slice(2) : ['native, inline: false', 'binding']
for (const side of sides as OurSide[]) {
  const [few, many] = [instructions(side, fewer), instructions(side, more)]
  // Threads are numbered by when they were started, which is the same each time.
  const spent = many.map((thread, index) => perRequest(few[index], thread))
  for (const [index, thread] of spent.entries()) {
    const isWorker = index > 0 && (thread['ONNX Runtime'] ?? 0) > 0
    if (index === 0 || isWorker)
      table.push([
        side,
        index === 0 ? 'application' : 'worker',
        sum(thread),
        ...parts.map((part) => thread[part] ?? 0),
      ])
  }
}
console.log(table.toString())
