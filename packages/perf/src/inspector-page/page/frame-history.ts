import type { Frame, Load } from 'zerohop/internals'
import type { Moment } from './live-charts.ts'

/** Frames that are kept: two minutes of them, where one comes a second. */
export const keptFrames = 120

const nothing: Load = { waiting: 0, running: 0, window: null }

/** The last frames. */
export class FrameHistory {
  #frames: Frame[] = []

  get last(): Frame | null {
    return this.#frames.at(-1) ?? null
  }

  add(frame: Frame): void {
    // What came before a clock was set back would stand behind what comes.
    if (this.last !== null && frame.atMs < this.last.atMs) this.#frames = []
    this.#frames.push(frame)
    if (this.#frames.length > keptFrames) this.#frames.shift()
  }

  /** What they say of all models, or of the one that is chosen; `null` where frames are missing in between. */
  moments(chosen: string | null): (Moment | null)[] {
    return this.#frames.flatMap((frame, index) => {
      const before = this.#frames[index - 1]
      const moment = { frame, load: loadOf(frame, chosen) }
      return before !== undefined && frame.atMs - before.atMs > 2.5 * frame.intervalMs
        ? [null, moment]
        : [moment]
    })
  }
}

/** What a model is called in the list to choose from. */
export function modelKey({ name, version }: { readonly name: string; readonly version: number }): string {
  return `${name} · version ${version}`
}

function loadOf({ all, models }: Frame, chosen: string | null): Load {
  return chosen === null ? all : (models.find((model) => modelKey(model) === chosen) ?? nothing)
}
