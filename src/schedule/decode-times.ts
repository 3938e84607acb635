import { Recent } from './run-times.ts'

/** Decodings of one size by which is told what they take at present. */
const sizeWindow = 9
/** Decodings of a size until which the fastest says what is usual: the first ones are slow, and none is fast by chance. */
const fewDecodings = 5
/** Decodings of all sizes by which is told how far they spread. */
const spreadWindow = 100
/** Steps of size to the doubling. */
const steps = 2

/** What is to be decoded, as far as it tells how long that takes. */
interface Sized {
  readonly name: string
  readonly size: number
}

/**
 * How long decoding takes, by kind and size of what is decoded. Of a size that has not been seen no more is expected than of the next
 * smaller one, and of a kind none of which was seen, nothing: what is refused by a guess cannot tell that it was wrong.
 */
export class DecodeTimes {
  readonly #kinds = new Map<string, Map<number, Recent>>()
  readonly #fastest = new Map<string, number>()
  /** How many times as long as usual for their size the last ones took. */
  readonly #spread = new Recent(spreadWindow)

  observe(sized: Sized, ms: number): void {
    const usualMs = this.usualMs(sized)
    let sizes = this.#kinds.get(sized.name)
    if (sizes === undefined) this.#kinds.set(sized.name, (sizes = new Map<number, Recent>()))
    const step = stepOf(sized)
    let recent = sizes.get(step)
    if (recent === undefined) sizes.set(step, (recent = new Recent(sizeWindow)))
    if (recent.count >= fewDecodings) this.#spread.add(ms / Math.max(usualMs, Number.EPSILON))
    recent.add(ms)
    const key = `${sized.name} ${step}`
    this.#fastest.set(key, Math.min(ms, this.#fastest.get(key) ?? Infinity))
  }

  /** What one usually takes at present, in milliseconds; 0 when nothing like it was seen. */
  usualMs(sized: Sized): number {
    const sizes = this.#kinds.get(sized.name)
    if (sizes === undefined) return 0
    const step = stepOf(sized)
    const own = sizes.get(step)
    if (own !== undefined) return usualOf(own)
    const known = [...sizes.keys()].sort((a, b) => a - b)
    const below = known.findLast((other) => other < step)
    if (below !== undefined) return usualOf(sizes.get(below)!)
    const [smallest = step] = known
    return usualOf(sizes.get(smallest)!) * 2 ** ((step - smallest) / steps)
  }

  /** What the fastest of its kind and about its size took, in milliseconds; 0 when nothing like it was seen. */
  fastestMs(sized: Sized): number {
    return Math.min(this.usualMs(sized), this.#fastest.get(`${sized.name} ${stepOf(sized)}`) ?? Infinity)
  }

  /** By how many times what is usual 99 of 100 are longer at most; 0 when there were none. */
  get spread(): number {
    return this.#spread.count === 0 ? 0 : Math.max(0, this.#spread.quantile(0.99) - 1)
  }
}

function usualOf(recent: Recent): number {
  return recent.quantile(recent.count < fewDecodings ? 0 : 0.5)
}

function stepOf({ size }: Sized): number {
  return Math.round(steps * Math.log2(Math.max(1, size)))
}
