/**
 * What Piscina takes by `require()` in each thread of a function; see worker-thread/entry.cts. Returns at once and starts to serve
 * afterwards: Piscina holds the process until a task has returned.
 */
module.exports = async (
  task: import('../executors/protocol.ts', { with: { 'resolution-mode': 'import' } }).StartTask,
) => {
  try {
    const { serveFunction } = await import('./function-server.ts')
    serveFunction(task)
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    task.answer.postMessage({ failed: { message, code, onnxruntime: false } })
  }
}
