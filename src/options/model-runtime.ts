/** What opens the sessions of a model. */
export interface ModelRuntime {
  readonly executor: 'native' | 'binding'
  readonly ortVersion: string
  /** Whether no execution provider but the CPU's has a part in it. */
  readonly onCpuOnly: boolean
}
