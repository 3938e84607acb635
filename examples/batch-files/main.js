import { constants } from 'node:os'
import { InferenceEngine } from 'zerohop'
import { classifyFiles } from './classify-files.js'
import { loadClassifier } from './classifier.js'
import { openResults } from './results.js'
import { readSettings } from './settings.js'

const { folder, results: path, ...settings } = readSettings(process.argv.slice(2), process.env)

// The first signal takes no more files, and waits for those that are being classified; one that comes a second later does not wait.
// Sooner it is the same one: npm passes on what the terminal has sent already.
const stop = new AbortController()
for (const name of ['SIGINT', 'SIGTERM']) {
  process.on(name, () => {
    process.exitCode = 128 + constants.signals[name]
    setTimeout(() => process.removeAllListeners(name), 1000).unref()
    stop.abort()
  })
}

const engine = new InferenceEngine()
const results = await openResults(path)
try {
  const classify = await loadClassifier(engine, settings)
  const { classified, failed, failures, seconds } = await classifyFiles({
    folder,
    results,
    classify,
    signal: stop.signal,
  })
  console.log(
    `${classified} images in ${seconds.toFixed(1)} s (${(classified / seconds).toFixed(1)}/s), now ${results.done.size + classified} in ${path}`,
  )
  if (stop.signal.aborted) console.log('Stopped. The same command goes on from here.')
  if (failed > 0) {
    console.error(`${failed} failed, which the same command tries again:`)
    for (const { file, reason } of failures) console.error(`  ${onOneLine(file)}: ${onOneLine(reason)}`)
    if (failed > failures.length) console.error(`  and ${failed - failures.length} more`)
    process.exitCode ??= 1
  }
} finally {
  await results.close()
  await engine.close()
}

/** Names of files may hold anything, also what terminals take for commands. */
function onOneLine(text) {
  return text.replaceAll(
    /\p{Cc}/gu,
    (character) => `\\x${character.codePointAt(0).toString(16).padStart(2, '0')}`,
  )
}
