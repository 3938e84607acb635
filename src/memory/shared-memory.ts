/** SharedArrayBuffers of one engine, counted until they are collected: nothing else can free them. */
export class SharedMemory {
  readonly kind: 'shared' | 'copied'
  #bytes = 0
  readonly #collected = new FinalizationRegistry<number>((byteLength) => (this.#bytes -= byteLength))

  /** @param copied whether ONNX Runtime refuses them here, so that workers copy to and fro. */
  constructor(copied: boolean) {
    this.kind = copied ? 'copied' : 'shared'
  }

  /** Bytes that are not known to be collected. */
  get bytes(): number {
    return this.#bytes
  }

  allocate(byteLength: number): SharedArrayBuffer {
    const buffer = new SharedArrayBuffer(byteLength)
    this.#bytes += byteLength
    this.#collected.register(buffer, byteLength)
    return buffer
  }
}
