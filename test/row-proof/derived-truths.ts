import { fork } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseGraph, type GraphOutput } from './graph-text.ts'
import { truthsByAxis, type Truth } from './truth.ts'

/** What ONNX Runtime says of an output of a graph, if rows lay along that axis. */
export interface DerivedTruth {
  readonly text: string
  readonly output: GraphOutput
  readonly truth: Truth
}

interface Done {
  readonly index: number
  readonly truths: readonly { output: GraphOutput; truth: Truth }[]
}

/** Runs graphs in other processes, some of which end: ONNX Runtime does not check all that it is given. Those graphs say nothing. */
export async function truthsOf(texts: readonly string[]): Promise<DerivedTruth[]> {
  const file = join(mkdtempSync(join(tmpdir(), 'derived-')), 'texts.json')
  writeFileSync(file, JSON.stringify(texts))
  const all: DerivedTruth[] = []
  for (let next = 0; next < texts.length;) {
    const child = fork(fileURLToPath(import.meta.url), ['derived', file, String(next)], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    child.on('message', (message) => {
      const { index, truths } = message as Done
      all.push(...truths.map((each) => ({ text: texts[index]!, ...each })))
      next = index + 1
    })
    const code = await new Promise((resolve) => child.on('close', resolve))
    if (code !== 0) next++
  }
  return all
}

if (process.argv[2] === 'derived') {
  const texts = JSON.parse(readFileSync(process.argv[3]!, 'utf8')) as string[]
  for (let index = Number(process.argv[4]); index < texts.length; index++) {
    const truths = await truthsByAxis(parseGraph(texts[index]!))
    await new Promise((resolve) => process.send!({ index, truths } satisfies Done, resolve))
  }
  process.disconnect()
}
