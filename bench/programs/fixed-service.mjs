// A model whose batches take a known time, whatever is in them: it sleeps, and spins for what sleeping is not exact enough for.
const still = new Int32Array(new SharedArrayBuffer(4))
const spinMs = 0.5

export const setup = ({ parameters }) => parameters.serviceMs

export default ({ x }, { state: serviceMs }) => {
  const endMs = performance.now() + serviceMs
  if (serviceMs > spinMs) Atomics.wait(still, 0, 0, serviceMs - spinMs)
  while (performance.now() < endMs);
  return { y: Float32Array.from(x.data) }
}
