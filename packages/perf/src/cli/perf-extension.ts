import type { Command } from 'commander'
import type { SampleSource } from '../perf/input/sample-source.ts'
import type { OpenedModel, PerfTarget } from '../perf/open-target.ts'
import type { PerfSettings } from '../perf/perf-settings.ts'
import type { PerfResult } from '../perf/result.ts'
import type { ProfileExport } from './perf-files.ts'

/** The values of all options of `zerohop perf`, under the names that commander gives them. */
export type PerfOptions = Readonly<Record<string, unknown>>

/** What an extension has to work with. */
export interface PerfContext {
  readonly options: PerfOptions
  readonly opened: OpenedModel
  /** The model with what it is asked, as the options of inputs say. */
  readonly target: PerfTarget
  readonly settings: PerfSettings
  /** The settings as they are told in a result. */
  readonly shown: PerfResult['settings']
  /** Aborted by the first Ctrl-C, after which it tells what was measured until then. */
  readonly signal: AbortSignal
  /** Takes each request of each level, for `--profile-export-file`; `null` without it. */
  readonly profile: ProfileExport | null
  /** Writes to standard output. */
  readonly print: (text: string) => void
}

/** Options of `zerohop perf` that live in a file of their own. */
export interface PerfExtension {
  /** Adds them. */
  addOptions(command: Command): void
  /** Whether they are asked to measure, in the place of the usual levels: one of them at most may be. */
  measures?(options: PerfOptions): boolean
  /** The option that asks them to: others of its own mean nothing without it, and are refused. */
  readonly leader?: string
  /** Options of others that mean nothing beside it, under the names that commander gives them: they are refused, too. */
  unheard?(options: PerfOptions): readonly string[]
  /** What the model is asked then, in the place of what the options of inputs say. Default: as they say. */
  source?(options: PerfOptions, opened: OpenedModel, settings: PerfSettings): Promise<SampleSource>
  /** Measures; prints what it found. The exit code is that of the worst it has seen, `undefined` for 0. */
  measure?(context: PerfContext): Promise<{ readonly result: PerfResult; readonly exitCode?: number }>
  /** Does something with a result, whoever measured it. */
  report?(result: PerfResult, context: PerfContext): Promise<void>
}
