import { settingText } from './configuration-section.ts'
import type { NamedResult } from './named-result.ts'
import type { Section, Table } from './section.ts'

/** In what results differ beside their figures. */
export function differencesSection(compared: readonly NamedResult[]): Section {
  const tables = [
    differenceTable(
      'Settings that differ',
      compared,
      compared.map(({ result }) => result.settings),
    ),
    differenceTable(
      'Machines, where they differ',
      compared,
      compared.map(({ result }) => result.machine),
    ),
  ].filter(({ rows }) => rows.length > 0)
  return {
    id: 'configuration',
    title: 'Configuration',
    lead:
      tables.length === 0
        ? 'The settings and the machines are the same.'
        : 'The settings and machines, as far as they differ.',
    parts: tables.map((table) => ({ table })),
  }
}

function differenceTable(
  caption: string,
  compared: readonly NamedResult[],
  facts: readonly Readonly<Record<string, unknown>>[],
): Table {
  const names = [...new Set(facts.flatMap(Object.keys))]
  const rows = names.map((name) => [
    name,
    ...facts.map((own) => (own[name] === undefined ? '–' : settingText(own[name]))),
  ])
  return {
    caption,
    columns: ['', ...compared.map(({ name }) => name)],
    rows: rows.filter(([, ...values]) => new Set(values).size > 1),
    isOpen: true,
  }
}
