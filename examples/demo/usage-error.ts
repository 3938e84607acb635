/** Something the caller of the demo can put right; shown as one line without a stack. */
export class UsageError extends Error {}
