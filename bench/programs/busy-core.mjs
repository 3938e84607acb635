// Keeps a core busy until its parent sends a message, which it answers with the share of a core that it got, or has ended.
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
