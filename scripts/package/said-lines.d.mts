import type { ChildProcess } from 'node:child_process'

export class SaidLines {
  constructor(child: ChildProcess)
  get text(): string
  said(pattern: RegExp): Promise<RegExpExecArray>
  ended(): Promise<{
    readonly code: number | null
    readonly signal: NodeJS.Signals | null
    readonly lines: string[]
  }>
}
