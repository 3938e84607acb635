/** It is looked at so often at most: that takes some microseconds. */
const lookEveryMs = 10

/** Keeps trials within the memory that they were given, beyond what the process had when the first began. */
export class TrialMemory {
  readonly #mostBytes: number
  readonly #bytes: () => number
  #ownBytes: number | null = null
  #lookAtMs = 0
  #ownInstances = 0
  /** The largest number of instances that was tried, and what the process had grown by with them. */
  #most = { instances: 0, bytes: 0 }

  /** @param bytes that the process has. */
  constructor(mostBytes: number, bytes: () => number) {
    this.#mostBytes = mostBytes
    this.#bytes = bytes
  }

  /** A search begins from so many instances. */
  begin(instances: number): void {
    if (this.#mostBytes === Infinity || this.#ownBytes !== null) return
    this.#ownBytes = this.#bytes()
    this.#ownInstances = instances
  }

  /** Whether more is taken than may be. */
  isOver(nowMs: number): boolean {
    if (this.#mostBytes === Infinity || nowMs < this.#lookAtMs) return false
    this.#lookAtMs = nowMs + lookEveryMs
    return this.#grownBytes > this.#mostBytes
  }

  /** So many instances were tried. */
  note(instances: number): void {
    if (this.#mostBytes !== Infinity && instances >= this.#most.instances)
      this.#most = { instances, bytes: Math.max(0, this.#grownBytes) }
  }

  /** Whether so many instances are expected to keep to it, by what fewer took: each takes as much as another. */
  allows(instances: number): boolean {
    const { instances: tried, bytes } = this.#most
    return (
      instances < tried ||
      tried <= this.#ownInstances ||
      (bytes * (instances - this.#ownInstances)) / (tried - this.#ownInstances) <= this.#mostBytes
    )
  }

  get #grownBytes(): number {
    return this.#bytes() - this.#ownBytes!
  }
}
