import { join } from 'node:path'
import { Presets, SingleBar } from 'cli-progress'
import { pMapIterable } from 'p-map'
import { imagesIn } from './images-in.js'

/** As many files are read, decoded and classified at the same time: two batches of 32. No more are taken before results are written. */
const atOnce = 64
/** So many failures are told of; the others are counted. */
const failuresTold = 100

/** Classifies what has no result yet, and shows how far it is. An abort takes no more files, and loses none. */
export async function classifyFiles({ folder, results, classify, signal }) {
  const failures = []
  let failed = 0
  const fail = (file, reason) => {
    if (++failed <= failuresTold) failures.push({ file, reason })
  }
  async function* waiting() {
    for await (const file of imagesIn(folder, (path, error) => fail(path, error.message))) {
      if (signal.aborted) return
      if (!results.takes(file)) fail(file, 'its name has a line break, which only .jsonl can hold')
      else if (!results.done.has(file)) yield file
    }
  }

  const { total, before } = await count(folder, results, signal)
  const started = performance.now()
  const seconds = () => (performance.now() - started) / 1000
  // Draws nothing where standard error is no terminal.
  const bar = new SingleBar(
    {
      format: '{bar} {value}/{total} | {rate}/s | {eta_formatted} left',
      etaBuffer: 1000,
      gracefulExit: false,
    },
    Presets.shades_classic,
  )
  bar.start(total, before, { rate: '-' })
  let classified = 0
  try {
    const outcomes = pMapIterable(
      waiting(),
      async (file) => ({ file, ...(await classify(join(folder, file))) }),
      { concurrency: atOnce, preserveOrder: false },
    )
    for await (const outcome of outcomes) {
      if ('reason' in outcome) fail(outcome.file, outcome.reason)
      else {
        await results.add(outcome)
        classified++
      }
      bar.increment(1, { rate: ((classified + failed) / seconds()).toFixed(1) })
    }
  } finally {
    bar.stop()
  }
  return { classified, failed, failures, seconds: seconds() }
}

/** Without it nobody could say how much is left. */
async function count(folder, { done }, signal) {
  let total = 0
  let before = 0
  for await (const file of imagesIn(folder, () => {})) {
    if (signal.aborted) break
    total++
    if (done.has(file)) before++
  }
  return { total, before }
}
