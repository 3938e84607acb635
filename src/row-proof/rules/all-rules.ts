import type { Rules } from '../operation.ts'
import { arithmetic } from './arithmetic.ts'
import { graphs } from './graphs.ts'
import { indexing } from './indexing.ts'
import { learning } from './learning.ts'
import { linear } from './linear.ts'
import { movement } from './movement.ts'
import { quantisation } from './quantised.ts'
import { recurrence } from './recurrent.ts'
import { reductions } from './reductions.ts'

/** What each operator does with rows; one without an entry is not followed. */
export const rules: Rules = { ...arithmetic, ...movement, ...indexing, ...reductions, ...linear, ...quantisation, ...recurrence, ...graphs, ...learning }
