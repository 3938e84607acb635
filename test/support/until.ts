import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

const turns = 100

/**
 * Waits until `condition` holds, for states that nothing announces: some turns of the event loop, then a millisecond at
 * a time, which leaves the processor to what is waited for.
 */
export async function until(condition: () => boolean): Promise<void> {
  for (let turn = 0; !condition(); turn++) await (turn < turns ? nextTurn() : sleep(1))
}
