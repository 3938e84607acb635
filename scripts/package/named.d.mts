export function named(
  known: readonly string[],
  words: readonly string[],
  otherwise?: readonly string[],
): readonly string[]
