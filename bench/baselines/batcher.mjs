import { Tensor } from 'onnxruntime-node'

/** A batcher as an application would write it, on its own thread: the rows of one turn of the event loop run together. */
export function batcher(session, maxRows) {
  const [[input], [output]] = [session.inputNames, session.outputNames]
  let waiting = []
  const run = async (batch) => {
    try {
      const width = batch[0].row.length
      const rows = new Float32Array(batch.length * width)
      batch.forEach(({ row }, index) => rows.set(row, index * width))
      const feeds = { [input]: new Tensor('float32', rows, [batch.length, width]) }
      const { data } = (await session.run(feeds))[output]
      const length = data.length / batch.length
      // Copies: a view would keep the whole batch's answers in memory, and transferring it would detach them all.
      const answer = (index) => ({
        data: data.slice(index * length, (index + 1) * length),
        dims: [1, length],
      })
      batch.forEach(({ resolve }, index) => resolve({ [output]: answer(index) }))
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }
  const flush = () => {
    const all = waiting
    waiting = []
    for (let at = 0; at < all.length; at += maxRows) run(all.slice(at, at + maxRows))
  }
  return (row) =>
    new Promise((resolve, reject) => {
      if (waiting.push({ row, resolve, reject }) === 1) setImmediate(flush)
    })
}
