export type PrebuildPlatform =
  | 'linux-x64'
  | 'linux-arm64'
  | 'darwin-x64'
  | 'darwin-arm64'
  | 'win32-x64'
  | 'win32-arm64'

/** What binary-facts.py prints, and the size of the file. */
export interface BinaryFacts {
  readonly format: string
  readonly machine: string
  readonly exports: readonly string[]
  readonly libraries: readonly string[]
  readonly from_node: readonly string[]
  readonly system: readonly number[]
  readonly bytes: number
  readonly signed?: boolean
  readonly other_versions?: readonly string[]
}

export function faultsOf(platform: PrebuildPlatform, facts: BinaryFacts): string[]
