import { readdirSync, readFileSync } from 'node:fs'

/** Below this share of the machine's processor time, other processes do not disturb measurements. */
const disturbing = 0.05

/** Processor time in ticks of the kernel. */
interface Ticks {
  /** Of all processors, idle or not. */
  readonly total: number
  readonly busy: number
  /** Of this process and its children. */
  readonly own: number
  readonly cores: number
}

/**
 * Watches how much processor time other processes take from now on.
 *
 * @returns the warning if they have disturbed the measurements since then, or `null`; always `null` on a system without /proc.
 */
export function watchMachineLoad(): () => string | null {
  const before = ticks()
  return () => {
    const now = before === null ? null : ticks()
    return before === null || now === null ? null : loadNote(before, now)
  }
}

/** The warning for the processor time between two moments. */
export function loadNote(before: Ticks, now: Ticks): string | null {
  const total = now.total - before.total
  const others = total === 0 ? 0 : (now.busy - before.busy - (now.own - before.own)) / total
  return others < disturbing
    ? null
    : `other processes used ${(others * now.cores).toFixed(1)} of ${now.cores} cores during the measurements: stop them and run again with --fresh`
}

function ticks(): Ticks | null {
  try {
    const lines = readFileSync('/proc/stat', 'utf8').split('\n')
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
    const fields = lines[0]!.trim().split(/ +/).slice(1, 9).map(Number)
    const total = fields.reduce((sum, each) => sum + each, 0)
    const cores = lines.filter((line) => /^cpu\d/.test(line)).length
    return { total, busy: total - fields[3]! - fields[4]!, own: ownTicks(), cores }
  } catch {
    return null // not Linux
  }
}

/** Children that have ended are part of this process's own figures, those that run are not. */
function ownTicks(): number {
  let sum = 0
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const [parent, ticksOfIt] = ticksOf(name)
    if (Number(name) === process.pid || parent === process.pid) sum += ticksOfIt
  }
  return sum
}

/** The parent of a process, and its ticks with those of its children that have ended. */
function ticksOf(pid: string): [parent: number, ticks: number] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number) // from field 3, the state
    return [fields[1]!, fields[11]! + fields[12]! + fields[13]! + fields[14]!]
  } catch {
    return [0, 0] // has ended meanwhile
  }
}
