import { writeFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import type { TrialTask, TrialWord } from '../../models/compiled-models/trial-messages.ts'
import { completeConfig } from './model-parts.ts'
import { TrialSteps } from './trial-steps.ts'

/**
 * The program of a process in which one model is tried. It may end in whatever way the model has it end, and ends at once with the
 * process that has started it.
 */
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
// They come to a whole group, of which the process that has started this one may be about to finish its work.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.umask(0o077)
for (const giveWay of [
  () => setPriority(constants.priority.PRIORITY_BELOW_NORMAL), // others are being served
  () => writeFileSync('/proc/self/oom_score_adj', '1000'), // where memory is short this process is to end, and not the one that has started it
]) {
  try {
    giveWay()
  } catch {
    // as it is, then
  }
}

const say = (word: TrialWord): void => void process.send!(word)

process.once('message', (task: TrialTask) => {
  say({ type: 'stage', stage: 'model' })
  void completeConfig(task, process.stdin)
    .then((config) => new TrialSteps(task, config).all(() => say({ type: 'stage', stage: 'compiled form' })))
    .catch((error: Error) => ({ error: error.message, notes: {}, files: null, reason: '' }))
    .then((result) => say({ type: 'done', result }))
})
say({ type: 'started' })
