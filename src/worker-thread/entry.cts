/**
 * What Piscina takes by `require()` in each thread. Of ES modules it would have Node make a whole graph at once, and a thread
 * that is terminated meanwhile, as by an exception on the application's thread, ends the process by a signal (Node 20).
 */
module.exports = async (task: import('../executor/thread-start.ts', { with: { 'resolution-mode': 'import' } }).StartTask) => {
  try {
    const { default: start } = await import('./start.ts')
    start(task)
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    task.answer.postMessage({ failed: { message, code, onnxruntime: false } })
  }
}
