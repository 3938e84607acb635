import type { PerfResult } from '../result.ts'
import type { Section, Table } from './section.ts'

/** In characters. */
const longestSetting = 2000

/** What a repetition needs to know. */
export function configurationSection({ settings, machine }: PerfResult): Section {
  return {
    id: 'configuration',
    title: 'Configuration',
    lead: 'What a repetition needs: the settings, under the names of the command line, and the machine.',
    parts: [{ table: factTable('Settings', settings) }, { table: factTable('Machine', machine) }],
  }
}

function factTable(caption: string, facts: Readonly<Record<string, unknown>>): Table {
  const rows = Object.entries(facts).flatMap(([name, value]) => (value === undefined ? [] : [[name, settingText(value)]]))
  return { caption, columns: [caption === 'Settings' ? 'Option' : 'Fact', 'Value'], rows, isOpen: true }
}

/** A setting as it is written: text as it is, anything else as JSON, as far as there is one. */
export function settingText(value: unknown): string {
  const text = typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'bigint' ? String(value) : jsonOf(value)
  return text.length > longestSetting ? `${text.slice(0, longestSetting)}… (${text.length} characters)` : text
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? String(inner) : inner)) ?? String(value)
  } catch {
    return String(value) // what refers to itself
  }
}
