import { constants } from 'node:os'
import { InferenceEngine } from 'zerohop'
import { classifyFiles } from './classify-files.js'
import { loadClassifier } from './classifier.js'
import { openResults } from './results.js'
import { readSettings } from './settings.js'

const { folder, results: path, ...settings } = readSettings(process.argv.slice(2), process.env)

// The first signal takes no more files, and waits for those that are being classified; the next one does not wait.
const stop = new AbortController()
for (const name of ['SIGINT', 'SIGTERM']) {
  process.once(name, () => {
    process.exitCode = 128 + constants.signals[name]
    stop.abort()
  })
}

const engine = new InferenceEngine()
const results = await openResults(path)
try {
  const classify = await loadClassifier(engine, settings)
  const { classified, before, failed, failures, seconds } = await classifyFiles({ folder, results, classify, signal: stop.signal })
  console.log(`${classified} images in ${seconds.toFixed(1)} s (${(classified / seconds).toFixed(1)}/s), now ${classified + before} in ${path}`)
  if (stop.signal.aborted) console.log('Stopped. The same command goes on from here.')
  if (failed > 0) {
    console.error(`${failed} failed, which the same command tries again:`)
    for (const { file, reason } of failures) console.error(`  ${file}: ${reason}`)
    if (failed > failures.length) console.error(`  and ${failed - failures.length} more`)
    process.exitCode ??= 1
  }
} finally {
  await results.close()
  await engine.close()
}
