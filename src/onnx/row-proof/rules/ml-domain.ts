import { isSame, lengthOf, type Dim } from '../dims.ts'
import { apart, forEach, like, rowsOnly, type Operation, type Rule, type Rules } from '../operation.ts'
import { elementType, sameRows, tensor, type Tensor } from '../followed-values.ts'
import { dependent, notFollowed } from '../not-proved.ts'
import { elementWise } from './arithmetic.ts'
import { reshaped } from './movement.ts'

/**
 * Classical machine learning and texts, `[N, features]`. Source:
 * onnx.ai/onnx/operators/onnx_aionnxml_NAME.html, onnx.ai/onnx/operators/onnx__NAME.html.
 */

const { float32, int64, string, bool } = elementType

/** An input of samples with features. Without a dimension of samples it is a single sample. */
function samples(op: Operation): Tensor {
  const of = op.data(0)
  if (of.shape.length !== 2)
    return of.rows === null
      ? of
      : notFollowed(`it has ${of.shape.length} dimensions instead of two, samples and features`)
  apart(of, [1], 'takes features together')
  return of
}

const countOf = (of: Tensor): Dim => (of.shape.length === 2 ? of.shape[0]! : 1)

/** @param listed the attribute with one entry per number in a sample's output. */
const regressor =
  (listed: string): Rule =>
  (op) => {
    const of = samples(op)
    const targets = op.int(listed, 1)
    return tensor(float32, [countOf(of), targets], { rows: of.rows })
  }

/** A label and scores, mostly one per class. */
const classifier: Rule = (op) => {
  const of = samples(op)
  if (op.string('post_transform', 'NONE') === 'PROBIT')
    return notFollowed('with PROBIT, ONNX Runtime leaves one of two scores unwritten')
  const type = op.hasAttribute('classlabels_strings') ? string : int64
  return [
    tensor(type, [countOf(of)], { rows: of.rows }),
    tensor(float32, [countOf(of), lengthOf(`scores of ${op.label}`)], { rows: of.rows }),
  ]
}

const FeatureVectorizer: Rule = (op) => {
  const parts = op.all()
  const rows = parts.find((part) => part.rows !== null)?.rows ?? null
  for (const part of parts) {
    if (part.shape.length !== 2)
      return rows === null
        ? tensor(float32, [1, lengthOf(`features of ${op.label}`)])
        : notFollowed('one of its inputs has no dimension of samples')
    rowsOnly(part, [0], 'puts features together')
    if (rows !== null && (part.rows === null || !sameRows(part.rows, rows)))
      return dependent('one of its inputs has a fixed number of rows')
  }
  return tensor(float32, [parts[0]!.shape[0]!, lengthOf(`features of ${op.label}`)], { rows })
}

const OneHotEncoder: Rule = (op) => {
  const of = op.data(0)
  const count =
    op.attribute('cats_int64s')?.ints?.length ||
    op.attribute('cats_strings')?.strings?.length ||
    lengthOf(`classes of ${op.label}`)
  return tensor(float32, [...of.shape, count], { rows: of.rows })
}

/**
 * Selects entries along the last dimension. An index with rows, whatever its shape, gives them one after the
 * other there.
 */
const ArrayFeatureExtractor: Rule = (op) => {
  const [of, index] = [op.data(0), reshaped(op.data(1), [-1])]
  if (of.rows !== null && index.rows !== null) return dependent('each row picks entries of all others')
  if (of.rows !== null && of.rows.axis === of.shape.length - 1)
    return dependent(`it picks entries along dimension ${of.rows.axis}, which counts the rows`)
  const shape = [...(of.shape.length === 1 ? [1] : of.shape.slice(0, -1)), index.shape[0]!]
  return tensor(of.type, shape, {
    rows: index.rows === null ? of.rows : { ...index.rows, axis: shape.length - 1 },
  })
}

/** A map from classes to scores for each sample. */
const ZipMap: Rule = (op) => {
  const scores = op.data(0)
  if (scores.rows === null) return { kind: 'list', items: null, byRow: false }
  const { axis, outer, inner } = scores.rows
  return axis === 0 && scores.shape.length === 2 && isSame(outer, 1) && isSame(inner, 1)
    ? { kind: 'list', items: null, byRow: true }
    : dependent('its maps are not one for each row')
}

/** Words or characters, some of which may be removed. */
const StringNormalizer: Rule = (op) => {
  const words = op.data(0)
  const takesOut = op.attribute('stopwords') !== null && op.attribute('stopwords')!.strings?.length !== 0
  if (words.rows !== null && takesOut)
    return dependent('how many words are left depends on what the rows hold')
  if (words.rows !== null && words.shape.length === 2 && words.rows.axis === 0)
    return dependent('it takes one row of words only')
  return takesOut
    ? tensor(words.type, [...words.shape.slice(0, -1), lengthOf(`words of ${op.label}`)])
    : like(words)
}

const TfIdfVectorizer: Rule = (op) => {
  const of = op.data(0)
  apart(of, [of.shape.length - 1], 'counts words')
  const size = (op.ints('ngram_indexes') ?? []).reduce((most, index) => Math.max(most, index + 1), 0)
  return tensor(float32, [...of.shape.slice(0, -1), size], { rows: of.rows })
}

const StringSplit: Rule = (op) => {
  const texts = op.data(0)
  const parts =
    texts.rows === null
      ? tensor(string, [...texts.shape, lengthOf(`parts of ${op.label}`)])
      : op.fault('dependent', 'it is as wide as the longest of all rows')
  return [parts, like(texts, int64)]
}

/** Tree ensembles; rows are samples. */
const TreeEnsemble: Rule = (op) => {
  const of = samples(op)
  return tensor(of.type, [countOf(of), op.int('n_targets', 1)], { rows: of.rows })
}

const classifiers = ['LinearClassifier', 'SVMClassifier', 'TreeEnsembleClassifier'].map(
  (name) => `ai.onnx.ml:${name}`,
)

const encoded: Rule = (op) => {
  const given = ['keys_int64s', 'keys_strings', 'keys_floats', 'keys_tensor'].some((name) =>
    op.hasAttribute(name),
  )
  const type = op.hasAttribute('values_strings')
    ? string
    : op.hasAttribute('values_int64s')
      ? int64
      : op.hasAttribute('values_floats')
        ? float32
        : given
          ? (op.attribute('values_tensor')?.tensor?.type ?? 0)
          : op.raw(0).type === string
            ? int64
            : string
  return like(op.data(0), type)
}

export const mlDomain: Rules = {
  'ai.onnx.ml:LinearRegressor': regressor('targets'),
  ...forEach(['ai.onnx.ml:SVMRegressor', 'ai.onnx.ml:TreeEnsembleRegressor'], regressor('n_targets')),
  ...forEach(classifiers, classifier),
  'ai.onnx.ml:TreeEnsemble': TreeEnsemble,
  ...forEach(['ai.onnx.ml:Scaler', 'ai.onnx.ml:Normalizer'], (op) => like(samples(op), float32)),
  'ai.onnx.ml:Imputer': (op) => like(samples(op)),
  'ai.onnx.ml:Binarizer': elementWise(),
  ...forEach(['ai.onnx.ml:LabelEncoder', 'ai.onnx.ml:CategoryMapper'], encoded),
  'ai.onnx.ml:OneHotEncoder': OneHotEncoder,
  'ai.onnx.ml:ArrayFeatureExtractor': ArrayFeatureExtractor,
  'ai.onnx.ml:FeatureVectorizer': FeatureVectorizer,
  'ai.onnx.ml:ZipMap': ZipMap,
  StringNormalizer,
  TfIdfVectorizer,
  StringSplit,
  'com.microsoft:MurmurHash3': (op) =>
    elementWise(op.int('positive', 1) === 1 ? elementType.uint32 : elementType.int32)(op),
  'com.microsoft:Tokenizer': (op) =>
    op.data(0).rows === null
      ? notFollowed('its texts are not followed')
      : dependent('it is as wide as the longest of all rows'),
  'com.microsoft:IsAllFinite': (op) =>
    op.all().some(({ rows }) => rows !== null) ? dependent('it looks at all rows') : tensor(bool, []),
}
