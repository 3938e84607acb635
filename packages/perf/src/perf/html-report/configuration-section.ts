import type { PerfResult } from '../result.ts'
import type { Section, Table } from './section.ts'

/** In characters. */
const longestSetting = 2000

/** What a repetition needs to know, what was said first. */
export function configurationSection({ settings, given, machine }: PerfResult): Section {
  const settingTable = (caption: string, belongs: (name: string) => boolean, isOpen: boolean) =>
    factTable(
      caption,
      'Option',
      Object.entries(settings).filter(([name]) => belongs(name)),
      isOpen,
    )
  const isGiven = (name: string) => given === undefined || given.includes(name)
  const usual = settingTable('Settings that are as they are by default', (name) => !isGiven(name), false)
  return {
    id: 'configuration',
    title: 'Configuration',
    lead: 'What a repetition needs: the settings, under the names of the command line, and the machine.',
    parts: [
      { table: settingTable(given === undefined ? 'Settings' : 'Settings that were given', isGiven, true) },
      { table: factTable('Machine', 'Fact', Object.entries(machine), true) },
      ...(usual.rows.length === 0 ? [] : [{ table: usual }]),
    ],
  }
}

function factTable(
  caption: string,
  heading: string,
  facts: readonly (readonly [name: string, value: unknown])[],
  isOpen: boolean,
): Table {
  const rows = facts.flatMap(([name, value]) => (value === undefined ? [] : [[name, settingText(value)]]))
  return { caption, columns: [heading, 'Value'], rows, isOpen }
}

/** A setting as it is written: text as it is, anything else as JSON, as far as there is one. */
export function settingText(value: unknown): string {
  const text =
    typeof value === 'string'
      ? value
      : typeof value === 'number' || typeof value === 'bigint'
        ? String(value)
        : jsonOf(value)
  return text.length > longestSetting ? `${text.slice(0, longestSetting)}… (${text.length} characters)` : text
}

function jsonOf(value: unknown): string {
  try {
    return (
      JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? String(inner) : inner)) ??
      String(value)
    )
  } catch {
    return String(value) // what refers to itself
  }
}
