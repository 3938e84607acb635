/** Those of `known` that the words of a command line name, `otherwise` where they name none; throws for a name that is not known. Words that begin with `--` are no names. */
export function named(known, words, otherwise = known) {
  const names = words.filter((word) => !word.startsWith('--'))
  const unknown = names.find((name) => !known.includes(name))
  if (unknown !== undefined) throw new Error(`expected some of ${known.join(', ')}, received ${unknown}`)
  return names.length === 0 ? otherwise : names
}
