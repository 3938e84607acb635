import type { Target } from '../targets.ts'

/** How a part is run. */
export interface PartOptions {
  /** How long one measurement takes, in seconds. */
  readonly seconds: number
  /** How often measurements are repeated. */
  readonly rounds: number
  /** A look at whether the part runs, with little models. */
  readonly smoke: boolean
}

/** What a part found. */
export interface PartResult {
  /** What it ran on. */
  readonly on: string
  /** Whether that stood in for a GPU, its driver or its provider: then figures of speed mean nothing. */
  readonly standIn: boolean
  /** Rows of the table; all have the same columns. */
  readonly rows: readonly Readonly<Record<string, string | number>>[]
  readonly targets: readonly Target[]
}

/** One question about GPUs and how it is answered. */
export interface Part {
  readonly describe: string
  run(options: PartOptions): Promise<PartResult>
}
