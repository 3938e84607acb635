import type { FunctionHere, FunctionOptions } from '../../options/function-config.ts'
import { invalidArgument } from '../../errors.ts'

/** Options of {@link nonMaxSuppression}. */
export interface NonMaxSuppressionOptions {
  /**
   * If two boxes of one class overlap by more than this (intersection over union), the one with the lower
   * score is dropped. 0 to 1. Default 0.5.
   */
  iouThreshold?: number
  /** Boxes with a lower score are dropped. Default 0.25. */
  scoreThreshold?: number
  /** Most boxes per row; those with the highest scores are kept. Default 300. */
  maxDetections?: number
  /**
   * Meaning of a box's four numbers: two opposite `corners`, or its `centre` with width and height. Default
   * `'corners'`.
   */
  boxes?: 'corners' | 'centre'
}

type Inputs = readonly [
  { readonly name: 'boxes'; readonly type: 'float32'; readonly dims: readonly ['boxes', 4] },
  { readonly name: 'scores'; readonly type: 'float32'; readonly dims: readonly ['classes', 'boxes'] },
]
type Outputs = readonly [
  { readonly name: 'boxes'; readonly type: 'float32'; readonly dims: readonly [-1, 4] },
  { readonly name: 'scores'; readonly type: 'float32'; readonly dims: readonly [-1] },
  { readonly name: 'classes'; readonly type: 'int64'; readonly dims: readonly [-1] },
]

/**
 * The configuration of a function that filters the boxes of a detector. It takes `boxes`, float32 `[boxes,
 * 4]`, and `scores`, float32 `[classes, boxes]`, as ONNX's operator does. It returns the boxes that remain,
 * the highest score first: `boxes` unchanged, `scores` and `classes`. Their number differs per row. It runs
 * on the application's thread.
 *
 * @throws InferenceError `ERR_INVALID_ARG` for an option out of its range.
 */
export function nonMaxSuppression(
  options: NonMaxSuppressionOptions = {},
): FunctionOptions<Inputs, Outputs> & FunctionHere<Inputs, Outputs> {
  const {
    iouThreshold = 0.5,
    scoreThreshold = 0.25,
    maxDetections = 300,
    boxes: format = 'corners',
  } = options
  if (!(iouThreshold >= 0 && iouThreshold <= 1))
    throw invalidArgument('iouThreshold', 'a number from 0 to 1', iouThreshold)
  if (!Number.isFinite(scoreThreshold))
    throw invalidArgument('scoreThreshold', 'a finite number', scoreThreshold)
  if (!Number.isSafeInteger(maxDetections) || maxDetections < 1)
    throw invalidArgument('maxDetections', 'a whole number of at least 1', maxDetections)
  if (format !== 'corners' && format !== 'centre')
    throw invalidArgument('boxes', "'corners' or 'centre'", format)
  return {
    inputs: [
      { name: 'boxes', type: 'float32', dims: ['boxes', 4] },
      { name: 'scores', type: 'float32', dims: ['classes', 'boxes'] },
    ],
    outputs: [
      { name: 'boxes', type: 'float32', dims: [-1, 4] },
      { name: 'scores', type: 'float32', dims: [-1] },
      { name: 'classes', type: 'int64', dims: [-1] },
    ],
    run: ({ boxes, scores }, { rows }) => {
      const kept = Array.from({ length: rows }, (_, row) => {
        const own = boxes.row(row)
        const found = keep(cornersOf(own, format), scores.row(row), {
          iouThreshold,
          scoreThreshold,
          maxDetections,
        })
        return { own, found }
      })
      return {
        boxes: kept.map(({ own, found }) =>
          Float32Array.from(found.flatMap(({ box }) => [...own.subarray(4 * box, 4 * box + 4)])),
        ),
        scores: kept.map(({ found }) => Float32Array.from(found, ({ score }) => score)),
        classes: kept.map(({ found }) => BigInt64Array.from(found, (each) => BigInt(each.class))),
      }
    },
  }
}

interface Candidate {
  readonly box: number
  readonly class: number
  readonly score: number
}

function keep(
  boxes: Float32Array,
  scores: Float32Array,
  { iouThreshold, scoreThreshold, maxDetections }: Required<Omit<NonMaxSuppressionOptions, 'boxes'>>,
): Candidate[] {
  const count = boxes.length / 4
  const candidates: Candidate[] = []
  for (let at = 0; at < scores.length; at++) {
    if (scores[at]! >= scoreThreshold)
      candidates.push({ box: at % count, class: Math.floor(at / count), score: scores[at]! })
  }
  candidates.sort((a, b) => b.score - a.score || a.class - b.class || a.box - b.box)
  const kept: Candidate[] = []
  for (const candidate of candidates) {
    if (kept.length === maxDetections) break
    if (
      !kept.some(
        (other) => other.class === candidate.class && overlap(boxes, other.box, candidate.box) > iouThreshold,
      )
    )
      kept.push(candidate)
  }
  return kept
}

/** Intersection over union of two boxes, `[left, top, right, bottom]` each. */
function overlap(boxes: Float32Array, a: number, b: number): number {
  const [i, j] = [4 * a, 4 * b]
  const width = Math.min(boxes[i + 2]!, boxes[j + 2]!) - Math.max(boxes[i]!, boxes[j]!)
  const height = Math.min(boxes[i + 3]!, boxes[j + 3]!) - Math.max(boxes[i + 1]!, boxes[j + 1]!)
  if (width <= 0 || height <= 0) return 0
  return (width * height) / (area(boxes, i) + area(boxes, j) - width * height)
}

function area(boxes: Float32Array, at: number): number {
  return (boxes[at + 2]! - boxes[at]!) * (boxes[at + 3]! - boxes[at + 1]!)
}

/** The lesser and the greater corner of each box. */
function cornersOf(boxes: Float32Array, format: 'corners' | 'centre'): Float32Array {
  const found = new Float32Array(boxes.length)
  for (let at = 0; at < boxes.length; at += 4) {
    for (const axis of [at, at + 1]) {
      const [one, other] = [boxes[axis]!, boxes[axis + 2]!] // the other corner, in any order, or the size
      found[axis] = format === 'corners' ? Math.min(one, other) : one - other / 2
      found[axis + 2] = format === 'corners' ? Math.max(one, other) : one + other / 2
    }
  }
  return found
}
