import { SingleBar } from 'cli-progress'

/** A line on a terminal of what goes on, which goes when it is stopped; `null` where that is no terminal. The cursor stays: a program that is ended at once could not give it back. */
export function progressBar(format: string, stream: NodeJS.WriteStream): SingleBar | null {
  return stream.isTTY ? new SingleBar({ format, stream, clearOnComplete: true, barsize: 20 }) : null
}
