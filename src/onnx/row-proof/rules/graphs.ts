import { areSame, isAtLeast, isSame, lengthOf, ofRows, shown, takeSteps, type Dim } from '../dims.ts'
import {
  apart,
  axisIn,
  moved,
  type Operation,
  ordersDiffer,
  range,
  type Rule,
  type Rules,
} from '../operation.ts'
import {
  countsRows,
  either,
  elementType,
  extent,
  mostElements,
  sameRows,
  tensor,
  type Fault,
  type List,
  type Tensor,
  type Value,
} from '../followed-values.ts'
import { dependent, notFollowed, NotProved } from '../not-proved.ts'
import { withElements } from './arithmetic.ts'
import { joined, without, withAxes } from './movement.ts'

/**
 * Operators with graphs in them, and sequences of tensors. Source: onnx.ai/onnx/operators/onnx__NAME.html.
 */

const { int64, bool } = elementType

/** The branch that is taken, if the graph shows which; otherwise what both have in common. */
const If: Rule = (op) => {
  const condition = op.raw(0)
  const run = (name: string) => op.runGraph(op.graph(name), [])
  const known = condition.rows === null ? (condition.elements?.[0] ?? null) : null
  if (typeof known === 'number') return run(known === 0 ? 'else_branch' : 'then_branch')
  if (condition.rows !== null) return dependent('which branch it takes depends on what the rows hold')
  if (known !== null && ofRows(known)) return dependent('which branch it takes depends on the number of rows')
  const [yes, no] = [run('then_branch'), run('else_branch')]
  return yes.map((value, index) => {
    const other = no[index]!
    const [one, two] = [value, other].map((each) => each.kind === 'fault' && each.verdict === 'dependent')
    // Which branch is taken is the same for all requests of a run: the other one may be that.
    if (one !== two)
      return op.fault('unknown', `in one of its branches: ${((one ? value : other) as Fault).reason}`)
    return inCommon(op, value, other, index)
  })
}

/** What two branches have in common, or why that is not known. */
function inCommon(op: Operation, a: Value, b: Value, index: number): Value {
  const value = either(a, b, `${op.label} ${index}`)
  return value.kind === 'fault' && value.node === null ? op.fault(value.verdict, value.reason) : value
}

/** Turns of a loop after which its state must not change any more. */
const mostTurns = 6

/** Follows a body until the values that pass from turn to turn do not change any more. */
function settle(
  op: Operation,
  first: readonly Value[],
  turn: (states: readonly Value[]) => Value[],
): { readonly states: readonly Value[]; readonly made: readonly Value[] } {
  let states = first
  for (let turns = 0; turns < mostTurns; turns++) {
    const made = turn(states)
    const next = states.map((state, index) => inCommon(op, state, made[index]!, index))
    if (next.every((value, index) => isKept(states[index]!, value))) return { states, made }
    states = next
  }
  return notFollowed('the values it carries from iteration to iteration do not settle')
}

/** Whether a value has everything in common with another: the kept value is then the same object. */
function isKept(a: Value, kept: Value): boolean {
  if (a.kind !== 'tensor' || kept.kind !== 'tensor')
    return a === kept || (a.kind === 'fault' && kept.kind === 'fault' && a.reason === kept.reason)
  return (
    areSame(a.shape, kept.shape) &&
    a.elements === kept.elements &&
    a.bound === kept.bound &&
    a.nonZero === kept.nonZero
  )
}

/** A shared scalar of unknown value in later turns: the counter, and elements that change. */
function sharedScalar(op: Operation, name: string, type: number): Tensor {
  return tensor(type, [], { elements: [lengthOf(`${name} of ${op.label}`)] })
}

/** The values that a loop begins with. */
function statesOf(op: Operation, from: number, to: number): Value[] {
  return range(from, to).map((index) => op.value(index) ?? notFollowed('a state is left out'))
}

const Loop: Rule = (op) => {
  const limit = op.has(0) ? op.raw(0) : null
  const condition = op.has(1) ? op.raw(1) : null
  for (const each of [limit, condition]) {
    if (each !== null && each.rows !== null)
      return dependent('how often it runs depends on what the rows hold')
    if (each !== null && countsRows(each)) return dependent('how often it runs depends on the number of rows')
  }
  const body = op.graph('body')
  const initial = statesOf(op, 2, op.inputs.length)
  let endsEarly = condition !== null && condition.elements?.[0] !== 1
  const mayNotRun =
    endsEarly || !(limit === null || (limit.elements !== null && isAtLeast(limit.elements[0]!, 1)))
  const { states, made } = settle(op, initial, (own) => {
    const [goesOn, ...values] = op.runGraph(body, [
      sharedScalar(op, 'turn', int64),
      withElements(bool, [], [1]),
      ...own,
    ])
    endsEarly ||= checkCondition(goesOn as Tensor | Fault).elements?.[0] !== 1
    return values
  })
  const count = (endsEarly ? null : limit?.elements?.[0]) ?? lengthOf(`turns of ${op.label}`)
  // Without a turn, what each would give has other dimensions.
  return [
    ...states,
    ...made
      .slice(initial.length)
      .map((value) =>
        mayNotRun && value.kind === 'tensor'
          ? op.fault('unknown', 'cannot tell whether it has any iteration')
          : stacked(value, count, 0),
      ),
  ]
}

function checkCondition(value: Tensor | Fault): Tensor {
  if (value.kind === 'fault') throw new NotProved(value.verdict, `its condition: ${value.reason}`)
  if (value.rows !== null) dependent('its condition depends on what the rows hold')
  return countsRows(value) ? dependent('its condition depends on the number of rows') : value
}

/** The outputs of all turns, stacked along a new dimension. */
function stacked(value: Value, count: Dim, axis: number): Value {
  if (value.kind !== 'tensor') return value
  const at = axisIn(axis, value.shape.length + 1)
  const rows = value.rows && { ...value.rows, axis: value.rows.axis + (value.rows.axis >= at ? 1 : 0) }
  return moved(value, value.shape.toSpliced(at, 0, count), rows)
}

/**
 * Goes along an axis of some inputs. This may be the axis of the rows if nothing passes from one turn to the
 * next.
 */
const Scan: Rule = (op) => {
  if (op.version < 9) return notFollowed('its first version is not followed')
  const count = op.int('num_scan_inputs', 1)
  const body = op.graph('body')
  const initial = statesOf(op, 0, op.inputs.length - count)
  const scanned = Array.from({ length: count }, (_, index) => op.data(initial.length + index))
  const axes = scanned.map((of, index) => axisIn(op.ints('scan_input_axes')?.[index] ?? 0, of.shape.length))
  const overRows = scanned.filter((of, index) => of.rows?.axis === axes[index])
  if (overRows.length > 0) return overEachRow(op, scanned, axes, initial)
  const slices = scanned.map((of, index) => without(of, [axes[index]!]))
  const plain = slices.map((slice) => ({ ...slice, elements: null }))
  const { states, made } = settle(op, initial, (own) => op.runGraph(body, [...own, ...plain]))
  const outputAxes = op.ints('scan_output_axes')
  const steps = scanned[0]!.shape[axes[0]!]!
  return [
    ...states,
    ...made.slice(initial.length).map((value, index) => stacked(value, steps, outputAxes?.[index] ?? 0)),
  ]
}

function overEachRow(
  op: Operation,
  scanned: readonly Tensor[],
  axes: readonly number[],
  initial: readonly Value[],
): readonly Value[] {
  if (initial.length > 0) return dependent('it goes from row to row')
  const rows = scanned[0]!.rows ?? dependent('one of its inputs has rows, and another has none')
  if (scanned.some((of, index) => of.rows === null || !sameRows(of.rows, { ...rows, axis: axes[index]! })))
    return ordersDiffer()
  const directions = ['scan_input_directions', 'scan_output_directions'].flatMap(
    (name) => op.ints(name) ?? [],
  )
  if (directions.some((direction) => direction !== 0))
    return notFollowed('it goes through the rows backwards')
  // In the body each turn has one row, as if that were all: nothing in it may have rows of its own.
  const slices = scanned.map((of, index) => tensor(of.type, of.shape.toSpliced(axes[index]!, 1)))
  const made = op.runGraph(op.graph('body'), slices)
  const outputAxes = op.ints('scan_output_axes')
  return made.map((value, index) => {
    if (value.kind !== 'tensor') return value
    if (value.rows !== null || countsRows(value)) return op.fault('dependent', 'a row meets all others')
    // A length that depends on what a row holds would be another one in each.
    if (value.shape.some((dim) => typeof dim !== 'number' && dim.key.includes('(')))
      return op.fault('unknown', 'cannot tell whether its iterations give equal shapes')
    const at = axisIn(outputAxes?.[index] ?? 0, value.shape.length + 1)
    return tensor(value.type, value.shape.toSpliced(at, 0, extent(rows)), { rows: { ...rows, axis: at } })
  })
}

function listAt(op: Operation, index: number): readonly Tensor[] {
  const value = op.value(index)
  return (value?.kind === 'list' ? value.items : null) ?? notFollowed('the length of a sequence is not known')
}

function listOf(items: readonly Tensor[]): List {
  takeSteps(items.length)
  return { kind: 'list', items, byRow: false }
}

/** An index in a sequence; negative ones count from its end. */
function placeIn(op: Operation, index: number, length: number, otherwise: number): number {
  const place = op.number(index, 'a place in a sequence', otherwise)
  return place < 0 ? place + length : place
}

const SplitToSequence: Rule = (op) => {
  const of = op.data(0)
  const axis = op.axis(of.shape.length, 0)
  // Without lengths each entry is of length 1.
  if (of.rows?.axis === axis && !op.has(1) && isSame(of.rows.outer, 1) && isSame(of.rows.inner, 1))
    return { kind: 'list', items: null, byRow: true }
  apart(of, [axis], 'divides')
  const given = op.has(1) ? op.numbers(1, 'lengths') : [1]
  const isOne = !op.has(1) || op.raw(1).shape.length === 0
  const lengths = isOne ? equalParts(of.shape[axis]!, given[0]!) : given
  if (op.has(1) && op.int('keepdims', 1) === 0 && lengths.includes(1))
    return notFollowed('cannot tell whether it removes the dimension that it divides')
  const parts = lengths.map((length) => moved(of, of.shape.with(axis, length), of.rows))
  const isRemoved = !op.has(1) && op.int('keepdims', 1) === 0
  return listOf(isRemoved ? parts.map((part) => without(part, [axis])) : parts)
}

/** Lengths of the parts. The last one may be shorter. */
function equalParts(dim: Dim, length: number): number[] {
  if (typeof dim !== 'number') return notFollowed(`dimension ${shown(dim)} is not known`)
  if (dim / length > mostElements) return notFollowed('it makes too many parts')
  return Array.from({ length: Math.ceil(dim / length) }, (_, index) => Math.min(length, dim - index * length))
}

const ConcatFromSequence: Rule = (op) => {
  const items = listAt(op, 0)
  if (items.length === 0) return notFollowed('a sequence is empty')
  const isNew = op.int('new_axis', 0) === 1
  const axis = axisIn(op.int('axis', 0), items[0]!.shape.length + (isNew ? 1 : 0))
  return joined(isNew ? items.map((item) => withAxes(item, [axis])) : items, axis)
}

/** The value of an optional that has one. */
const OptionalGetElement: Rule = (op) => op.value(0) ?? notFollowed('it is given nothing')

export const graphs: Rules = {
  If,
  Loop,
  Scan,
  SequenceConstruct: (op) => listOf([...op.inputs.keys()].map((index) => op.raw(index))),
  SequenceEmpty: () => listOf([]),
  SequenceAt: (op) => {
    const items = listAt(op, 0)
    return items[placeIn(op, 1, items.length, 0)] ?? notFollowed('a place is not in its sequence')
  },
  SequenceInsert: (op) => {
    const items = [...listAt(op, 0)]
    items.splice(placeIn(op, 2, items.length, items.length), 0, op.raw(1))
    return listOf(items)
  },
  SequenceErase: (op) => {
    const items = listAt(op, 0)
    const place = placeIn(op, 1, items.length, items.length - 1)
    return listOf(items.filter((_, index) => index !== place))
  },
  SequenceLength: (op) => withElements(int64, [], [listAt(op, 0).length]),
  SplitToSequence,
  ConcatFromSequence,
  Optional: OptionalGetElement,
  OptionalGetElement,
  OptionalHasElement: (op) => withElements(bool, [], [op.value(0) === null ? 0 : 1]),
}
