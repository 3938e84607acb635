import { setImmediate as nextTurn } from 'node:timers/promises'

/** Waits, a turn of the event loop at a time, until `condition` holds: for states that nothing announces. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await nextTurn()
}
