import type { Cases, CaseTable } from './cases/case-table.ts'
import { contribCases } from './cases/contrib.ts'
import { classicalCases } from './cases/classical.ts'
import { exporterCases } from './cases/exporters.ts'
import { onnxCases } from './cases/onnx.ts'
import { trapCases } from './cases/traps.ts'

export interface OperatorCase {
  /** The operator, or what a graph of several does. */
  readonly subject: string
  readonly text: string
  readonly expected: keyof Cases
}

/** Those of single operators. */
export const operatorCases = [onnxCases, contribCases, classicalCases].flatMap(listed)
/** Those of several, as exporters write them. */
export const graphCases = [exporterCases, trapCases].flatMap(listed)
export const allCases: readonly OperatorCase[] = [...operatorCases, ...graphCases]

function listed(table: CaseTable): OperatorCase[] {
  return Object.entries(table).flatMap(([subject, cases]) =>
    (['independent', 'same', 'dependent'] as const).flatMap((expected) =>
      (cases[expected] ?? []).map((text) => ({ subject, text, expected })),
    ),
  )
}
