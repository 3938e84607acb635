// Keeps a core busy until it is told to end, or whoever started it has gone; answers how much of a core it got.
const sliceMs = 20
const [startMs, cpuBefore] = [performance.now(), process.cpuUsage()]

function spin() {
  for (const endMs = performance.now() + sliceMs; performance.now() < endMs;);
  setImmediate(spin)
}

process.once('disconnect', () => process.exit())
process.once('message', () => {
  const { user, system } = process.cpuUsage(cpuBefore)
  process.send((user + system) / 1000 / (performance.now() - startMs), () => process.disconnect())
})
spin()
