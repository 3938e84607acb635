import type { CaseTable } from './case-table.ts'

const tree = (kind: 'regressor' | 'classifier') => {
  const leaves = kind === 'regressor' ? 'target' : 'class'
  return [
    'nodes_treeids=[0,0,0] nodes_nodeids=[0,1,2] nodes_featureids=[0,0,0] nodes_values=[0.5,0.0,0.0]',
    `nodes_modes=['BRANCH_LEQ','LEAF','LEAF'] nodes_truenodeids=[1,0,0] nodes_falsenodeids=[2,0,0] nodes_missing_value_tracks_true=[0,0,0]`,
    `${leaves}_treeids=[0,0] ${leaves}_nodeids=[1,2] ${leaves}_ids=[0,1] ${leaves}_weights=[1.0,2.0]`,
  ].join(' ')
}
const svm = `kernel_type='RBF' kernel_params=[0.5,0.0,3.0] coefficients=[0.5,-0.7] rho=[0.1] support_vectors=[0.1,0.2,0.3,0.4]`

/** Operators of ai.onnx.ml. */
export const classicalCases: CaseTable = {
  ArrayFeatureExtractor: {
    independent: [
      'ml.ArrayFeatureExtractor(in(N,4), [2,0])',
      'ml.ArrayFeatureExtractor(k(4), in(int64 N <4)) -> 1',
    ],
    dependent: [
      'ml.ArrayFeatureExtractor(in(N,4), in(int64 N <4)) -> 1',
      'ml.ArrayFeatureExtractor(in(N), [0])',
      'ml.ArrayFeatureExtractor(in(2,N), [0]) -> 1',
    ],
  },
  Binarizer: {
    independent: ['ml.Binarizer(in(N,3)) threshold=0.5', 'ml.Binarizer(in(2,N)) threshold=0.5 -> 1'],
  },
  CategoryMapper: {
    independent: [
      `ml.CategoryMapper(in(string N,2)) cats_strings=['a','b'] cats_int64s=[4,5] default_int64=-1`,
    ],
  },
  FeatureVectorizer: {
    independent: [
      'ml.FeatureVectorizer(in(N,2)) inputdimensions=[2]',
      'ml.FeatureVectorizer(in(N,2), in(N,1)) inputdimensions=[2,1]',
    ],
    dependent: [
      'ml.FeatureVectorizer(in(N), in(N)) inputdimensions=[2,2]',
      'ml.FeatureVectorizer(in(2,N), in(2,N)) inputdimensions=[1,1] -> 1',
    ],
  },
  Imputer: {
    independent: [
      'ml.Imputer(in(N,3)) imputed_value_floats=[1.0,2.0,3.0] replaced_value_float=0.0',
      'ml.Imputer(in(N,3)) imputed_value_floats=[1.5] replaced_value_float=0.0',
    ],
  },
  LabelEncoder: {
    independent: [
      `ml.LabelEncoder(in(string N,2)) keys_strings=['a','b'] values_int64s=[4,5] default_int64=-1`,
      'ml.LabelEncoder(in(int64 2,N)) keys_int64s=[0,1] values_floats=[0.5,1.5] default_float=-1.0 -> 1',
    ],
    dependent: [
      'x = in(N)\nAdd(x, Cast(Mod(ml.LabelEncoder(Mul(Range(0, Gather(Shape(x), 0), 1), 3)) keys_int64s=[0,3] values_int64s=[1,2] default_int64=0, 3)) to=float32)',
    ],
  },
  LinearClassifier: {
    independent: [
      'l, p = ml.LinearClassifier(in(N,2)) classlabels_ints=[0,1] coefficients=[0.5,-0.5,0.2,0.7] intercepts=[0.1,0.2]\n-> 0,0',
      `l, p = ml.LinearClassifier(in(N,2)) classlabels_strings=['n','y'] coefficients=[0.5,-0.5,0.2,0.7] intercepts=[0.1,0.2] post_transform='SOFTMAX'\n-> 0,0`,
    ],
  },
  LinearRegressor: {
    independent: [
      'ml.LinearRegressor(in(N,2)) coefficients=[0.5,-0.5] intercepts=[0.1]',
      'ml.LinearRegressor(in(N,2)) coefficients=[0.5,-0.5,0.1,0.2] intercepts=[0.1,0.2] targets=2',
    ],
  },
  Normalizer: {
    independent: [
      `ml.Normalizer(in(N,3)) norm='L2'`,
      `ml.Normalizer(in(N,3)) norm='MAX'`,
      `ml.Normalizer(in(N,3)) norm='L1'`,
    ],
    dependent: [`ml.Normalizer(in(2,N)) norm='L2' -> 1`, `ml.Normalizer(in(N)) norm='L2'`],
  },
  OneHotEncoder: {
    independent: [
      'ml.OneHotEncoder(in(int64 N <4)) cats_int64s=[0,1,2] zeros=1',
      `ml.OneHotEncoder(in(string N,2)) cats_strings=['a','b'] zeros=1`,
    ],
  },
  Scaler: {
    independent: [
      'ml.Scaler(in(N,3)) offset=[0.5,1.0,2.0] scale=[1.0,2.0,3.0]',
      'ml.Scaler(in(N,3)) offset=[0.5] scale=[2.0]',
    ],
  },
  SVMClassifier: {
    independent: [
      `l, p = ml.SVMClassifier(in(N,2)) ${svm} classlabels_ints=[0,1] vectors_per_class=[1,1] post_transform='NONE'\n-> 0,0`,
    ],
  },
  SVMRegressor: { independent: [`ml.SVMRegressor(in(N,2)) ${svm} n_supports=2 post_transform='NONE'`] },
  TreeEnsembleRegressor: {
    independent: [
      `ml.TreeEnsembleRegressor(in(N,2)) n_targets=2 ${tree('regressor')}`,
      `ml.TreeEnsembleRegressor(in(N,2)) n_targets=2 aggregate_function='MAX' ${tree('regressor')}`,
    ],
  },
  TreeEnsembleClassifier: {
    independent: [
      `l, p = ml.TreeEnsembleClassifier(in(N,2)) classlabels_int64s=[0,1] post_transform='SOFTMAX' ${tree('classifier')}\n-> 0,0`,
      `l, p = ml.TreeEnsembleClassifier(in(N,2)) classlabels_strings=['n','y'] post_transform='NONE' ${tree('classifier')}\n-> 0,0`,
    ],
  },
  TreeEnsemble: {
    independent: [
      `ml.TreeEnsemble(in(N,2)) n_targets=1 aggregate_function=1 post_transform=0 tree_roots=[0] nodes_featureids=[0] nodes_splits=float32:[0.5] nodes_modes=uint8:[0] nodes_truenodeids=[0] nodes_falsenodeids=[1] nodes_trueleafs=[1] nodes_falseleafs=[1] leaf_targetids=[0,0] leaf_weights=float32:[1.0,2.0] @ml5`,
      `ml.TreeEnsemble(in(N,2)) n_targets=1 aggregate_function=3 post_transform=0 tree_roots=[0] nodes_featureids=[0] nodes_splits=float32:[0.5] nodes_modes=uint8:[0] nodes_truenodeids=[0] nodes_falsenodeids=[1] nodes_trueleafs=[1] nodes_falseleafs=[1] leaf_targetids=[0,0] leaf_weights=float32:[1.0,2.0] @ml5`,
    ],
  },
}
