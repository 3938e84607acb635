/** Wakes the event loop of another process, and has this one's woken. */
export interface NativeBell {
  /** Has the peer's event loop woken; nothing where that is about to be, or the peer has gone. */
  ring(): void
  /** Whether it holds the process; at first it does not. */
  ref(): void
  unref(): void
  /** Lets go of the descriptor. May be called twice. */
  close(): void
}

/** What processes hand over to each other, on Linux. Errors of the system have a `code` of Node's. */
export interface NativeProcesses {
  /**
   * Watches a socket. `onRing` is called once for all rings that have come; it must not throw. With `onlyWatches` it is called while there is
   * something to be read, and the descriptor stays the caller's.
   */
  readonly Bell: new (descriptor: number, onRing: () => void, onlyWatches?: boolean) => NativeBell
  /** Memory of zeros that nobody can make smaller; the descriptor is the caller's to hand over and to close. */
  createArea(byteLength: number): { readonly descriptor: number; readonly bytes: ArrayBuffer }
  /** Maps what a peer has handed over. Throws unless it is of that size for good. */
  openArea(descriptor: number, byteLength: number): ArrayBuffer
  /** Takes the memory from its buffer; with the last that maps it, it goes back to the system. */
  releaseArea(bytes: ArrayBuffer): void
  /** A connected Unix socket. */
  connect(path: string): number
  /** Two that are connected with each other. */
  socketPair(): [number, number]
  /** Who had the other end of a Unix socket when it was connected. */
  peer(descriptor: number): { readonly process: number; readonly user: number }
  /** Sends all the bytes at once, and the descriptors with them. */
  send(descriptor: number, bytes: Uint8Array, descriptors?: readonly number[]): void
  /** What has come: 0 bytes at the end of the stream, -1 where nothing has yet. */
  receive(
    descriptor: number,
    into: Uint8Array,
  ): { readonly length: number; readonly descriptors: readonly number[] }
  close(descriptor: number): void
  /** What was connected, received or locked is closed with this thread, however that ends, unless it was handed over to somebody who closes it. */
  handOver(descriptor: number): void
  /** A descriptor that holds the lock of a file until it is closed or the process ends, however; `null` while somebody else has it. */
  lock(path: string): number | null
}
