const told = new Set<string>()

/** Warns, once in a process for each option or call, of what has no effect here. */
export function warnIgnored(what: string, why: string): void {
  if (told.has(what)) return
  told.add(what)
  process.emitWarning(`${what} is ignored: ${why}`, { type: 'ZerohopWarning', code: 'ZEROHOP_ORT_IGNORED' })
}
