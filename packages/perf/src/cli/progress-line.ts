import { SingleBar } from 'cli-progress'

const intervalMs = 200

/** What a line shows: how far it has come, where that is known, and the values of its format. */
interface ProgressLook extends Readonly<Record<string, string | number>> {
  readonly value: number
}

/** A line on a terminal that is drawn again and again; none where the stream is no terminal. */
export class ProgressLine {
  readonly #bar: SingleBar | null
  #timer: NodeJS.Timeout | undefined

  /** @param format as cli-progress has them; times and counts in it are what is looked up. */
  constructor(format: string, stream: NodeJS.WriteStream) {
    this.#bar = stream.isTTY
      ? new SingleBar({ format, stream, clearOnComplete: true, hideCursor: true, barsize: 20 })
      : null
  }

  get isShown(): boolean {
    return this.#bar !== null
  }

  /** Draws the line, in the place of the one before, and looks every now and then what it shows. */
  begin(total: number, look: () => ProgressLook): void {
    const bar = this.#bar
    if (bar === null) return
    this.end()
    // A second Ctrl-C ends the program at once, and the terminal would be left without its cursor.
    process.once('exit', this.end)
    const { value, ...first } = look()
    bar.start(total, value, first)
    this.#timer = setInterval(() => {
      const { value, ...shown } = look()
      bar.update(value, shown)
    }, intervalMs).unref()
  }

  /** Takes the line away. */
  readonly end = (): void => {
    process.off('exit', this.end)
    clearInterval(this.#timer)
    this.#bar?.stop()
  }
}
