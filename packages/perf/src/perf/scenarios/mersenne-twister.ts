const stateSize = 624
const shiftSize = 397

/**
 * The 32-bit Mersenne Twister, number for number `std::mt19937`, with which LoadGen draws samples and arrivals.
 *
 * @see https://en.cppreference.com/w/cpp/numeric/random/mersenne_twister_engine
 */
export class MersenneTwister {
  readonly #state = new Uint32Array(stateSize)
  #at = stateSize

  /** @param seed of 64 bits, of which `std::mt19937` takes the low 32. */
  constructor(seed: bigint) {
    const state = this.#state
    state[0] = Number(BigInt.asUintN(32, seed))
    for (let index = 1; index < stateSize; index++) {
      const before = state[index - 1]! ^ (state[index - 1]! >>> 30)
      state[index] = Math.imul(1_812_433_253, before) + index
    }
  }

  /** A whole number of 32 bits, all equally likely. */
  next(): number {
    if (this.#at === stateSize) this.#twist()
    let value = this.#state[this.#at++]!
    value ^= value >>> 11
    value ^= (value << 7) & 0x9d2c5680
    value ^= (value << 15) & 0xefc60000
    return (value ^ (value >>> 18)) >>> 0
  }

  #twist(): void {
    const state = this.#state
    for (let index = 0; index < stateSize; index++) {
      const joined = (state[index]! & 0x80000000) | (state[(index + 1) % stateSize]! & 0x7fffffff)
      state[index] = state[(index + shiftSize) % stateSize]! ^ (joined >>> 1) ^ (joined & 1 ? 0x9908b0df : 0)
    }
    this.#at = 0
  }
}
