// What programs have in common that look at the first run of a model and at those after it.
export const input = JSON.parse(process.argv[2])

export const times = {
  /** Always the same row. */
  row(dims) {
    const data = new Float32Array(dims.reduce((product, dim) => product * dim, 1))
    for (let at = 0; at < data.length; at++) data[at] = Math.sin(at)
    return data
  },

  async measure(later, run) {
    const timed = async () => {
      const startMs = performance.now()
      const outputs = await run()
      return { ms: performance.now() - startMs, outputs }
    }
    const first = await timed()
    const all = []
    for (let count = 0; count < later; count++) all.push((await timed()).ms)
    const outputs = Object.values(first.outputs).map(({ data }) => [...data])
    return { firstMs: first.ms, laterMs: all.sort((a, b) => a - b)[later >> 1], outputs }
  },
}
