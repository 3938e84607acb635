import type { InlineOptions } from 'zerohop'

/** What requests and batches cost besides their runs, in milliseconds; measured, as a rule. Each is 0 where it is not given. */
export interface Overheads {
  /** Taking a request in, on the application's thread. */
  readonly requestMs?: number
  /** Gathering a batch and handing it over, on the application's thread: for the batch, and for each of its rows. */
  readonly gatherMs?: number
  readonly gatherRowMs?: number
  /** From a request until a batch is formed of it, when an instance is idle: the event loop comes round first. */
  readonly turnMs?: number
  /** From handing a batch to an idle instance until it starts. */
  readonly handOverMs?: number
  /** From the end of a run until the one starts that waits behind it. */
  readonly betweenMs?: number
  /** By how much a timer is late that ends a delay, or a wait. */
  readonly timerMs?: number
  /** From the end of a run until the application's thread is told. */
  readonly wakeMs?: number
  /** Giving the answers of a batch, on the application's thread: for the batch, and for each of its rows. */
  readonly scatterMs?: number
  readonly scatterRowMs?: number
  /** Which batches the application's thread runs itself, as in `EngineOptions.inline`. Default: none. */
  readonly inline?: Required<InlineOptions> | null
}

/** None. */
export const noOverheads: Required<Overheads> = {
  requestMs: 0,
  turnMs: 0,
  gatherMs: 0,
  gatherRowMs: 0,
  handOverMs: 0,
  betweenMs: 0,
  timerMs: 0,
  wakeMs: 0,
  scatterMs: 0,
  scatterRowMs: 0,
  inline: null,
}
