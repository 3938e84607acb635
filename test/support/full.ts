/** Whether this is `npm run test:full`, which CI runs. It has the time for what repeats for long. */
export const full = process.env['ZEROHOP_TESTS'] === 'full'

/** How often something is tried: in `npm run test:full`, and in `npm test`. */
export const repetitions = (inFull: number, usually: number): number => (full ? inFull : usually)
