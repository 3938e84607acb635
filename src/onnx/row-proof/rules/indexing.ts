import { areNumbers, isSame, isWhole, lengthOf, multiply, ofRows, product, shown, type Dim } from '../dims.ts'
import {
  apart,
  axisIn,
  dependsOnCount,
  like,
  moved,
  ordersDiffer,
  pointsInto,
  rowsOnly,
  oneToOne,
  together,
  type Rule,
  type Rules,
  dependsOnPlaces,
} from '../operation.ts'
import { elementType, sameRows, tensor, type Place, type Rows, type Tensor } from '../followed-values.ts'
import { dependent, notFollowed } from '../not-proved.ts'
import { withElements } from './arithmetic.ts'
import { reduced } from './reductions.ts'

/**
 * Operators that read or write elements by index, and those that return indices. An index into the dimension
 * of the rows must point to the row's own part. Source: onnx.ai/onnx/operators/onnx__NAME.html.
 */

const { int64 } = elementType

const picksByPlaces = (): never => dependent('it picks entries by the places of rows in the batch')
const putsByPlaces = (): never => dependent('it puts entries by the places of rows in the batch')

/**
 * Throws if an index, counted from the first row, may leave its own row. If the rows are repeated, it points
 * into the first repetition.
 */
function checkOwn(place: Place | null, rows: Rows, what: string): void {
  if (place === null) dependent(`${what} picks entries along dimension ${rows.axis}, which counts the rows`)
  else if (!pointsInto(place, rows.inner))
    notFollowed(`cannot tell whether ${what} picks entries of its own row alone`)
}

const Gather: Rule = (op) => {
  const [of, index] = [op.raw(0), op.indices(1)]
  const axis = op.axis(of.shape.length, 0)
  const shape = of.shape.toSpliced(axis, 1, ...index.shape)
  const { elements } = of
  if (elements !== null && of.shape.length === 1 && index.elements !== null && areNumbers(index.elements)) {
    const count = elements.length
    const elementAt = (at: number) =>
      elements[at < 0 ? at + count : at] ?? notFollowed(`index ${at} is out of ${count}`)
    return withElements(of.type, shape, index.elements.map(elementAt))
  }
  if (elements?.some(ofRows)) dependsOnCount()
  if (index.columns !== null || of.columns !== null) dependsOnPlaces()
  if (index.rows === null) {
    if (of.rows === null) return tensor(of.type, shape, { bound: of.bound, nonZero: of.nonZero })
    apart(of, [axis], 'picks entries')
    return moved(of, shape, {
      ...of.rows,
      axis: of.rows.axis < axis ? of.rows.axis : of.rows.axis - 1 + index.shape.length,
    })
  }
  const rows = { ...index.rows, axis: axis + index.rows.axis }
  if (of.rows === null) {
    if (index.place !== null) picksByPlaces()
    return tensor(of.type, shape, { rows, bound: of.bound, nonZero: of.nonZero })
  }
  if (of.rows.axis !== axis) dependent('each row picks entries of all others')
  checkOwn(index.place, of.rows, 'its index')
  return moved(of, shape, rows)
}

const GatherElements: Rule = (op) => {
  const [of, index] = [op.indices(0), op.indices(1)]
  const axis = op.axis(of.shape.length, 0)
  if (index.columns !== null || of.columns !== null) dependsOnPlaces()
  if (index.rows === null) {
    if (of.rows !== null) picksByPlaces()
  } else if (of.rows === null) {
    if (index.rows.axis !== axis || index.place !== null) picksByPlaces()
  } else {
    if (!sameRows(of.rows, index.rows)) ordersDiffer()
    if (of.rows.axis === axis) checkOwn(index.place, of.rows, 'its index')
    else if (index.place !== null) dependsOnPlaces()
  }
  return moved(of, index.shape, index.rows)
}

/** The place of a component of an index, for the dimension that it selects from. */
function placeOf(index: Tensor, column: number): Place | null {
  const width = index.shape.at(-1)!
  return index.columns === null
    ? width === 1
      ? index.place
      : index.place === null
        ? null
        : dependsOnPlaces()
    : (index.columns[column] ?? null)
}

function widthOf(index: Tensor): number {
  const width = index.shape.at(-1)!
  if (ofRows(width)) dependent('an index is made of several rows')
  return typeof width === 'number' ? width : notFollowed('how many numbers an index has is not known')
}

/** Throws if a component of an index other than that of the rows is a place of rows. */
function checkColumns(index: Tensor, width: number, rowsAt: number): void {
  for (let column = 0; column < width; column++)
    if (column !== rowsAt && placeOf(index, column) !== null) picksByPlaces()
}

const GatherND: Rule = (op) => {
  const [of, index] = [op.indices(0), op.indices(1)]
  const batch = op.int('batch_dims', 0)
  const width = widthOf(index)
  const shape = [...index.shape.slice(0, -1), ...of.shape.slice(batch + width)]
  // Of the index's numbers, the one that counts rows; none where that is below 0, or not below their number.
  const at = of.rows === null ? -1 : of.rows.axis - batch
  checkColumns(index, width, at)
  if (of.rows !== null && at < 0) {
    if (index.rows === null || !sameRows(index.rows, of.rows)) ordersDiffer()
    return moved(of, shape, of.rows)
  }
  if (index.rows !== null && index.rows.axis < batch)
    dependent(`${shown(of.shape[index.rows.axis]!)} entries stand where the rows are counted`)
  if (of.rows === null)
    return tensor(of.type, shape, { rows: index.rows, bound: of.bound, nonZero: of.nonZero })
  if (at < width) {
    checkOwn(placeOf(index, at), of.rows, 'its index')
    return moved(of, shape, index.rows)
  }
  if (index.rows !== null) dependent('each row picks entries of all others')
  return moved(of, shape, { ...of.rows, axis: index.shape.length - 1 + at - width })
}

/** Also `Scatter`, its earlier name. */
const ScatterElements: Rule = (op) => {
  const of = op.data(0)
  const [index, updates] = [op.indices(1), op.data(2)]
  const axis = op.axis(of.shape.length, 0)
  if (index.columns !== null) dependsOnPlaces()
  if (of.rows === null && index.rows === null && updates.rows === null) return like(of)
  // An entry that no index names stays as it is, so that fewer indices than rows would be for the first of them.
  for (const each of [of, index, updates])
    if (each.rows === null || !sameRows(each.rows, (of.rows ?? index.rows ?? updates.rows)!)) putsByPlaces()
  if (of.rows!.axis === axis) checkOwn(index.place, of.rows!, 'its index')
  else if (index.place !== null) putsByPlaces()
  return like(of)
}

const ScatterND: Rule = (op) => {
  const of = op.data(0)
  const [index, updates] = [op.indices(1), op.data(2)]
  const width = widthOf(index)
  if (of.rows === null)
    return index.rows === null && updates.rows === null
      ? like(of)
      : dependent('it writes values of the rows into a tensor that all rows share')
  if (of.rows.axis < width) {
    checkOwn(placeOf(index, of.rows.axis), of.rows, 'its index')
    checkColumns(index, width, of.rows.axis)
    if (updates.rows === null || !sameRows(updates.rows, index.rows!)) ordersDiffer()
    return like(of)
  }
  if (index.rows !== null) dependent('what it puts into a row depends on others')
  const own = { ...of.rows, axis: index.shape.length - 1 + of.rows.axis - width }
  if (updates.rows === null || !sameRows(updates.rows, own)) ordersDiffer()
  return like(of)
}

/** A key and value cache. Each row's update is written at the row's own index. */
const TensorScatter: Rule = (op) => {
  const [past, update, indices] = [op.data(0), op.data(1), op.optional(2)]
  oneToOne('caches, updates and indices', { 'the cache': past, 'the update': update, 'the index': indices })
  return like(past)
}

/** Values and their indices along an axis. */
const TopK: Rule = (op) => {
  const of = op.data(0)
  const axis = op.axis(of.shape.length, -1)
  apart(of, [axis], 'sorts')
  const given = op.version < 10 ? op.int('k', 1) : op.indices(1)
  if (typeof given !== 'number' && given.rows !== null)
    dependent('how many entries it gives depends on what the rows hold')
  const length = typeof given === 'number' ? given : (given.elements?.[0] ?? lengthOf(`k of ${op.label}`))
  const shape = of.shape.with(axis, length)
  return [
    tensor(of.type, shape, { rows: of.rows }),
    tensor(int64, shape, { rows: of.rows, bound: of.shape[axis]! }),
  ]
}

const ArgMax: Rule = (op) => {
  const of = op.data(0)
  const axis = op.axis(of.shape.length, 0)
  return { ...reduced(of, [axis], op.int('keepdims', 1) !== 0, int64), bound: of.shape[axis]! }
}

const Compress: Rule = (op) => {
  const of = op.data(0)
  const condition = op.shared(1, 'which entries it takes')
  const length = lengthOf(`entries of ${op.label}`, [...condition.shape])
  if (!op.hasAttribute('axis'))
    return of.rows === null
      ? tensor(of.type, [length])
      : dependent('it lists the entries of all rows one after another')
  const axis = op.axis(of.shape.length, 0)
  apart(of, [axis], 'takes some of the entries')
  return moved(of, of.shape.with(axis, length), of.rows)
}

const Unique: Rule = (op) => {
  const of = op.data(0)
  if (of.rows !== null) dependent('it compares entries of all rows')
  const length = lengthOf(`entries of ${op.label}`)
  const axis = op.hasAttribute('axis') ? op.axis(of.shape.length, 0) : null
  const own = axis === null ? [length] : of.shape.with(axis, length)
  const whole = axis === null ? product(of.shape) : of.shape[axis]!
  return [tensor(of.type, own), tensor(int64, [length]), tensor(int64, [whole]), tensor(int64, [length])]
}

/** `uniques, indices, counts` of one dimension. */
const uniqueOfFlat: Rule = (op) => {
  const of = op.data(0)
  if (of.rows !== null) dependent('it compares entries of all rows')
  const length = lengthOf(`entries of ${op.label}`)
  return [tensor(of.type, [length]), tensor(int64, of.shape), tensor(int64, [length])]
}

const ReverseSequence: Rule = (op) => {
  const [of, lengths] = [op.data(0), op.data(1)]
  const [batch, time] = [op.int('batch_axis', 1), op.int('time_axis', 0)]
  if (batch + time !== 1) notFollowed('its axes are not the first two')
  apart(of, [time], 'turns the order')
  if (of.rows?.axis === batch || lengths.rows !== null) {
    together([{ of, axis: batch, what: 'the input' }, { of: lengths, axis: 0, what: 'lengths' }]) // prettier-ignore
    if (of.rows === null || lengths.rows === null) dependent('lengths are not those of each row')
  }
  return like(of)
}

/** Inserts a dimension at an axis, with one entry per class. */
const OneHot: Rule = (op) => {
  const of = op.data(0)
  const given = op.indices(1)
  if (given.rows !== null) dependent('how many classes there are depends on what the rows hold')
  const values = op.shared(2, 'values')
  const known = given.elements?.[0]
  const depth = known !== undefined && isWhole(known) ? known : lengthOf(`depth of ${op.label}`) // of a fraction what is before the point
  const axis = axisIn(op.int('axis', -1), of.shape.length + 1)
  const shape = of.shape.toSpliced(axis, 0, depth)
  return tensor(values.type, shape, {
    rows: of.rows && { ...of.rows, axis: of.rows.axis < axis ? of.rows.axis : of.rows.axis + 1 },
  })
}

/** The boxes that remain, of all images: a single list, whose entries do not correspond to rows. */
const NonMaxSuppression: Rule = (op) => {
  for (const each of op.all())
    if (each.rows !== null) dependent('how many boxes it gives for a row depends on what the row holds')
  return tensor(int64, [lengthOf(`boxes of ${op.label}`), 3])
}

/** Regions of images, `[regions, 4]`. Each region names its image. */
const RoiAlign: Rule = (op) => {
  const [of, regions, images] = [op.data(0), op.data(1), op.indices(2)]
  if (of.rows === null) {
    if (images.place !== null) picksByPlaces()
  } else {
    if (of.rows.axis !== 0)
      dependent(`the input has rows along dimension ${of.rows.axis}, where they do not stay apart`)
    checkOwn(images.place, of.rows, 'the number of an image')
  }
  if ((regions.rows === null) !== (images.rows === null))
    dependent('regions and image numbers are not one to one')
  const rows = together([{ of: regions, axis: 0, what: 'regions' }, { of: images, axis: 0, what: 'image numbers' }]) // prettier-ignore
  return tensor(
    of.type,
    [regions.shape[0]!, of.shape[1]!, op.int('output_height', 1), op.int('output_width', 1)],
    { rows: rows && { axis: 0, ...rows } },
  )
}

/** Writes elements at the indices of `MaxPool` into a larger tensor. Indices count from the first row. */
const MaxUnpool: Rule = (op) => {
  const [of, index] = [op.data(0), op.indices(1)]
  const kernel = op.ints('kernel_shape') ?? notFollowed('attribute kernel_shape is missing')
  const strides = op.ints('strides') ?? kernel.map(() => 1)
  const pads = op.ints('pads') ?? kernel.flatMap(() => [0, 0])
  const shape = op.has(2)
    ? op.counts(2, 'the shape')
    : of.shape.map((dim, axis): Dim => {
        const at = axis - 2
        return at < 0
          ? dim
          : typeof dim === 'number'
            ? (dim - 1) * strides[at]! - pads[at]! - pads[at + kernel.length]! + kernel[at]!
            : lengthOf(`${op.label} ${axis}`)
      })
  if (of.rows === null && index.rows === null) return tensor(of.type, shape)
  if (of.rows === null) return putsByPlaces()
  rowsOnly(of, [0], 'puts entries')
  checkOwn(index.place, { ...of.rows, inner: multiply(of.rows.inner, product(shape.slice(1))) }, 'its index')
  if (!sameRows(of.rows, index.rows!)) return ordersDiffer()
  if (!isSame(shape[0]!, of.shape[0]!)) return notFollowed('its shape is not known to have all rows')
  return tensor(of.type, shape, { rows: of.rows })
}

export const indexing: Rules = {
  Gather,
  GatherElements,
  GatherND,
  'com.microsoft:GatherND': GatherND,
  ScatterElements,
  Scatter: ScatterElements,
  ScatterND,
  TensorScatter,
  TopK,
  ArgMax,
  ArgMin: ArgMax,
  Compress,
  Unique,
  'com.microsoft:Unique': uniqueOfFlat,
  ReverseSequence,
  OneHot,
  NonMaxSuppression,
  RoiAlign,
  MaxUnpool,
}
