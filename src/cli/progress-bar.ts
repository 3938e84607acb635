import { SingleBar } from 'cli-progress'

/** A line on a terminal of what goes on, which goes when it is stopped, or the program is ended at once; `null` where that is no terminal. */
export function progressBar(format: string, stream: NodeJS.WriteStream): SingleBar | null {
  if (!stream.isTTY) return null
  const bar = new SingleBar({ format, stream, clearOnComplete: true, hideCursor: true, barsize: 20 })
  process.once('exit', () => bar.stop()) // a terminal that has lost its cursor and the ends of lines would stay so
  return bar
}
