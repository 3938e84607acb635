import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { OwnBuild } from './own-build.ts'
import type { NumbersRow } from './trial.ts'

type Row = Readonly<Record<string, string | number | null>>

/**
 * What `--results` writes into bench/results/, a file each, as far as tables are made of it. A new trial needs no more than
 * its file: its rows come into bench/results.md, and its `numbers`, if it has any, into README.
 */
export interface KeptResult {
  readonly trial: string
  /** The question in a line. */
  readonly describe?: string
  /** What has to be known to read the rows. */
  readonly reading?: string
  readonly rows: readonly Row[]
  /** What it comes to: a figure of ours beside that of the baseline, which need not be in a table. */
  readonly ours?: number
  readonly plain?: number
  readonly unit?: string
  readonly ratio?: number
  /** In their place, where one table is not enough. */
  readonly tables?: readonly { readonly title: string; readonly rows: readonly Row[] }[]
  readonly numbers?: readonly NumbersRow[]
  readonly targets: readonly {
    readonly what: string
    readonly found: number
    readonly target: string
    readonly met: boolean
  }[]
  readonly settings: Readonly<Record<string, unknown>>
  readonly machine: {
    readonly cores: number
    readonly cpu?: string
    readonly node: string
    readonly onnxruntime: string
  }
  /** Of older results nobody knows. */
  readonly build?: OwnBuild
  /** ISO 8601. */
  readonly date: string
  readonly smoke: boolean
  readonly quick?: boolean
  /** Of a run that took less than the usual one, in whatever way: how long a measurement was, and how many rounds. */
  readonly shortened?: { readonly seconds: number; readonly rounds: number } | null
}

/**
 * All results of a folder, in the order of their names.
 *
 * @throws Error that names the file which is no result, or one of a smoke run: its figures mean nothing.
 */
export function readKeptResults(folder: string): KeptResult[] {
  return jsonFiles(folder).map((file) => {
    const result = JSON.parse(readFileSync(join(folder, file), 'utf8')) as KeptResult
    const missing = (['trial', 'rows', 'targets', 'settings', 'machine', 'date'] as const).filter(
      (key) => result[key] === undefined,
    )
    if (missing.length > 0)
      throw new Error(
        `${file}: expected a result of npm run bench -- --results, received one without ${missing.join(', ')}`,
      )
    if (result.smoke)
      throw new Error(
        `${file}: expected a result to be believed, received that of a smoke run. Run npm run bench -- ${result.trial} --results`,
      )
    if (Number.isNaN(Date.parse(result.date)))
      throw new Error(`${file}: expected a date, received '${result.date}'`)
    return result
  })
}

function jsonFiles(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((file) => file.endsWith('.json'))
      .sort()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** Where and with what it was measured. */
export function machineText({ cores, cpu, node, onnxruntime }: KeptResult['machine']): string {
  return `${cores} cores${cpu === undefined ? '' : ` (${cpu})`}, Node ${node}, onnxruntime-node ${onnxruntime}`
}

/** Which zerohop it was, from a comma on. */
export const buildText = ({ build }: KeptResult): string =>
  build === undefined ? '' : `, zerohop ${build.version} (build ${build.hash})`

export const isShortened = ({ quick, shortened }: KeptResult): boolean =>
  quick === true || (shortened !== undefined && shortened !== null)

export const dayOf = ({ date }: KeptResult): string => date.slice(0, 10)

/** A table of Markdown; what would end a cell or begin a tag is escaped. */
export function markdownTable(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const cell = (text: string) => text.replaceAll(/[|<]/g, '\\$&').replaceAll(/\s*\n\s*/g, ' ')
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`
  return [line(columns), `|${columns.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}
