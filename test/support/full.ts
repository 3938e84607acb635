/** Whether this is `npm run test:full`, which CI runs. Long repetitions belong there. */
export const full = process.env['ZEROHOP_TESTS'] === 'full'

/** The first number in `npm run test:full`, the second in `npm test`. */
export const repetitions = (inFull: number, usually: number): number => (full ? inFull : usually)
