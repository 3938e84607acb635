/** Counted up with each change of what is proved: proofs that are kept on disk hold for one revision. */
export const rulesRevision = 2
