import type { WorkerLink, WorkerLinkEvents } from '../executor/binding/worker-link.ts'

/** How a host gets its threads. */
export interface ThreadSource {
  /** A new link that reports to `events`. */
  link(events: WorkerLinkEvents): WorkerLink
  /** Starts a thread that serves `link`; rejects, with nothing left behind, when it does not come up. */
  start(link: WorkerLink): Promise<void>
  /** Why the thread that served `link` has ended, in words. */
  failure(link: WorkerLink): Promise<string>
  /** A batch was handed over: its completion is to be listened for. */
  submitted(): void
}
