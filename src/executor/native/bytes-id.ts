const ids = new WeakMap<SharedArrayBuffer, number>()

/** A number of its own for the bytes of a model, by which the sessions that were opened from them are known. */
export function bytesId(bytes: SharedArrayBuffer): number {
  let id = ids.get(bytes)
  // No count: other isolates have bytes, too.
  if (id === undefined) ids.set(bytes, (id = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER)))
  return id
}
