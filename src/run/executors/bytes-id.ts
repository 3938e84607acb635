const ids = new WeakMap<ArrayBufferLike, number>()

/** A number of its own for bytes, of a model or of a file that belongs to it, by which the sessions that were opened from them are known. */
export function bytesId(bytes: ArrayBufferLike): number {
  let id = ids.get(bytes)
  // No count: other isolates have bytes, too.
  if (id === undefined) ids.set(bytes, (id = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER)))
  return id
}
