// What worker threads die of in tests, by the value that says so.
const hold = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

export const poisons = {
  // The first two never return: the batch is never answered.
  '-1001': () => {
    setImmediate(() => {
      throw new Error('poisoned: throws')
    })
    return new Promise(() => {})
  },
  '-1002': () => {
    void Promise.reject(new Error('poisoned: rejects'))
    return new Promise(() => {})
  },
  '-1003': () => process.exit(7),
  // In small pieces and without a pause: other ways of filling a heap now and then take the process along, on Node 24
  // and without this library too.
  '-1004': () => {
    for (let last = null; ;) last = { last }
  },
  '-1005': () => {
    hold(3500)
    process.exit(7)
  },
}
