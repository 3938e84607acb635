import type { MailedTensor } from '../../tensor/tensor.ts'
import { cutRows, isMailedTensor, rowCount, tensorsIn, type MailedValue } from '../../tensor/values.ts'
import { floatTolerance } from '../../schedule/joining.ts'
import { compareOutput, tellsApart, type Comparison } from './compare-rows.ts'

/**
 * Compares one output of a batch, of whatever kind, with what its requests gave alone: a sequence entry by entry, the
 * tensors in two entries as rows, so that keys are equal and floats within the tolerance of tensors.
 *
 * @param alone of each request, in the order of the batch.
 * @param rows of each request.
 * @param tolerance of floats.
 */
export function compareValue(
  name: string,
  alone: readonly MailedValue[],
  rows: readonly number[],
  joined: MailedValue,
  tolerance = floatTolerance,
): Comparison {
  if (isMailedTensor(joined) && alone.every(isMailedTensor))
    return compareOutput(name, alone, rows, joined, tolerance)
  const total = rows.reduce((sum, count) => sum + count, 0)
  const odd = alone.findIndex((value, index) => rowCount(value) !== rows[index])
  if (odd !== -1) return undivided(name, alone[odd]!, rows[odd]!)
  if (rowCount(joined) !== total) return undivided(name, joined, total)
  let difference = 0
  let row = 0
  for (const [index, value] of alone.entries()) {
    for (let own = 0; own < rows[index]!; own++, row++) {
      const compared = compareEntry(
        name,
        cutRows(value, own, own + 1),
        cutRows(joined, row, row + 1),
        tolerance,
      )
      difference = Math.max(difference, compared.difference)
      if (compared.reason !== null) return { difference, reason: compared.reason }
    }
  }
  return { difference, reason: null }
}

/** Whether requests that ran alone differ in an output by enough for a mix-up to show. */
export function valuesTellApart(alone: readonly MailedValue[], tolerance = floatTolerance): boolean {
  if (alone.every(isMailedTensor)) return tellsApart(alone, tolerance)
  const [first, ...others] = alone.map(tensorsIn)
  return others.some(
    (own) =>
      own.length !== first!.length ||
      own.some((tensor, at) => tellsApart([asRow(first![at]!), asRow(tensor)], tolerance)),
  )
}

/** Two values as they are, whatever their rows. */
export function compareEntry(
  name: string,
  a: MailedValue,
  b: MailedValue,
  tolerance = floatTolerance,
): Comparison {
  const [own, other] = [tensorsIn(a), tensorsIn(b)]
  if (own.length !== other.length)
    return {
      difference: Infinity,
      reason: `output '${name}' has ${own.length} parts in one run and ${other.length} in another`,
    }
  let difference = 0
  for (const [at, tensor] of own.entries()) {
    const compared = compareOutput(name, [asRow(tensor)], [1], asRow(other[at]!), tolerance)
    difference = Math.max(difference, compared.difference)
    if (compared.reason !== null) return compared
  }
  return { difference, reason: null }
}

/** Whatever its first dimension counts, it is one row. */
const asRow = (tensor: MailedTensor): MailedTensor => ({ ...tensor, dims: [1, ...tensor.dims] })

function undivided(name: string, value: MailedValue, rows: number): Comparison {
  const count = rowCount(value)
  return {
    difference: Infinity,
    reason: `output '${name}' ${count === null ? 'is not divided by rows' : `of ${count} entries is not divided by rows (${rows})`}`,
  }
}
