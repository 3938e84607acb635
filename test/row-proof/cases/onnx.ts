import { each, type CaseTable } from './case-table.ts'

/** Operators of ai.onnx. */
export const onnxCases: CaseTable = {
  // One value to one value
  ...each(
    'Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Identity IsNaN IsInf Log Mish Neg Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh',
    (op) => ({
      independent: [`${op}(in(N,3))`, `${op}(in(2,N)) -> 1`],
      dependent: [`${op}(in(N,3)) -> 1`],
    }),
  ),
  'a length, rounded': {
    independent: ['Ceil', 'Round'].map(
      (op) =>
        `x = in(N,3)\nhalf = Cast(${op}(Mul(Cast(Shape(x) start=1 end=2) to=float32, 0.6))) to=int64\nReshape(Slice(x, [0], half, [1]), [-1,2])`,
    ),
  },
  ...each('Celu Elu LeakyRelu Selu ThresholdedRelu', (op) => ({
    independent: [`${op}(in(N,3)) alpha=0.7`, `${op}(in(2,N,2)) alpha=1.5 -> 1`],
  })),
  Gelu: { independent: ['Gelu(in(N,3))', `Gelu(in(2,N)) approximate='tanh' -> 1`] },
  HardSigmoid: { independent: ['HardSigmoid(in(N,3)) alpha=0.3 beta=0.4'] },
  Shrink: { independent: ['Shrink(in(N,3)) bias=0.1 lambd=0.4'] },
  ...each('Affine ParametricSoftplus ScaledTanh', (op) => ({
    same: [`${op}(in(N,3)) alpha=0.5 beta=0.1 @6`],
  })),
  Swish: { independent: ['Swish(in(N,3)) @24'] },
  Not: { independent: ['Not(in(bool N,3))', 'Not(in(bool 3,N)) -> 1'] },
  BitwiseNot: { independent: ['BitwiseNot(in(int32 N,3))'] },
  BitCast: { independent: ['BitCast(in(int32 N,3)) to=uint32 @26'] },
  Clip: {
    independent: ['Clip(in(N,3), -1.0, 2.0)', 'Clip(in(N,3), _, 2.0)', 'Clip(in(N,3), in(), _)'],
    dependent: ['x = in(N,3)\nClip(x, _, ReduceMean(x) keepdims=0)'],
  },
  Cast: {
    independent: [
      'Cast(in(N,3)) to=float64',
      'Cast(in(int32 2,N)) to=float32 -> 1',
      'Cast(in(N,3)) to=float16',
      'Cast(in(int64 N,2)) to=string',
      'Cast(in(N,3)) to=bool',
    ],
  },
  CastLike: {
    independent: ['CastLike(in(N,3), k(float64 1))', 'CastLike(in(int32 N,3), in(N,2))'],
    dependent: [
      'x = in(N)\nAdd(x, Cast(Mod(CastLike(Mul(Range(0, Gather(Shape(x), 0), 1), 100), int8:0), int8:100)) to=float32)',
    ],
  },
  Dropout: {
    independent: [
      'Dropout(in(N,3))',
      'y, m = Dropout(in(N,3), 0.5)\n-> 0,0',
      'Dropout(in(N,3), 0.5, bool:0)',
    ],
    dependent: ['Dropout(in(N,30 1..2), 0.5, bool:1)'],
  },

  // Two values to one, with broadcasting
  ...each('Add Sub Mul Div', (op) => ({
    independent: [
      `${op}(in(N,3), in(N,3))`,
      `${op}(in(N,3), k(3))`,
      `${op}(k(1,3), in(N,3))`,
      `${op}(in(N,3), in(1,3))`,
      `${op}(in(2,N), in(N)) -> 1`,
      `${op}(in(N,1), k(4))`,
      `${op}(in(N,3), k(2,1,3)) -> 1`,
      `${op}(in(N,1,3), in(2,1))`,
      `${op}(in(int32 N,3 1..9), in(int32 N,1 1..9))`,
    ],
    dependent: [
      `${op}(in(N,3), k(2,3))`,
      `${op}(k(3,1), in(N,2))`,
      `${op}(in(N), in(N,1))`,
      `${op}(in(N,1), in(1,N))`,
      `${op}(in(N,2), in(3,2))`,
      `${op}(in(N,3), k(2,1,3))`,
      `${op}(in(N,1,2), in(N,2))`,
    ],
  })),
  ...each('Pow Max Min Sum Mean PRelu', (op) => ({
    independent: [`${op}(in(N,3), in(N,3))`, `${op}(in(N,3), k(3))`, `${op}(in(N,2,3), in(1,1,3))`],
    dependent: [
      `${op}(in(N,3), k(2,3))`,
      ...(op === 'PRelu' ? [] : [`${op}(in(N), in(N,1))`, `${op}(k(3,1), in(N,2))`]),
    ],
  })),
  ...each('Equal Greater GreaterOrEqual Less LessOrEqual', (op) => ({
    independent: [
      `${op}(in(int32 N,3), in(int32 N,3))`,
      `${op}(in(N,3), k(3))`,
      `${op}(in(2,N), in(N)) -> 1`,
    ],
    dependent: [`${op}(in(int32 N,3), in(int32 2,3))`, `${op}(in(int32 N), in(int32 N,1))`],
  })),
  ...each('And Or Xor', (op) => ({
    independent: [`${op}(in(bool N,3), in(bool N,3))`, `${op}(in(bool N,3), bool:[1,0,1])`],
    dependent: [`${op}(in(bool N,3), bool:[[1,0,1],[0,1,0]])`, `${op}(in(bool N), in(bool N,1))`],
  })),
  ...each('BitwiseAnd BitwiseOr BitwiseXor', (op) => ({
    independent: [`${op}(in(int32 N,3), in(int32 N,3))`, `${op}(in(int32 N,3), int32:[1,2,3])`],
    dependent: [`${op}(in(int32 N,3), int32:[[1,2,3],[4,5,6]])`],
  })),
  BitShift: {
    independent: [`BitShift(in(uint32 N,3), uint32:[1,2,0]) direction='LEFT'`],
    dependent: [`BitShift(in(uint32 N,3), uint32:[[1,2,0],[1,1,1]]) direction='RIGHT'`],
  },
  Mod: {
    independent: ['Mod(in(int32 N,3), int32:[2,3,4])', 'Mod(in(N,3), in(N,3 1..5)) fmod=1'],
    dependent: ['Mod(in(int32 N,3), int32:[[2,3,4],[5,6,7]])'],
  },
  Where: {
    independent: [
      'Where(in(bool N,3), in(N,3), in(N,3))',
      'Where(in(bool N,1), in(N,3), k(3))',
      'Where(bool:[1,0,1], in(N,3), 0.5)',
      'Where(in(bool 3), 1.5, in(N,1))',
    ],
    dependent: [
      'Where(in(bool N,3), in(N,3), k(2,3))',
      'Where(in(bool N), in(N,1), 0.0)',
      'Where(bool:[[1],[0]], in(N,3), 0.5)',
    ],
  },

  // Constants, and what depends on no value
  Constant: {
    independent: ['Add(in(N,3), Constant() value_float=2.0)', 'Add(in(N,2), Constant() value=float32:[1,2])'],
    dependent: ['Add(in(N,1), Constant() value=float32:[[1],[2]])'],
  },
  ConstantOfShape: {
    independent: [
      'ConstantOfShape(Shape(in(N,3))) value=float32:[2]',
      'x = in(N,3)\nConcat(x, ConstantOfShape(Shape(x)) value=float32:[1]) axis=1',
      'x = in(N,3)\nAdd(x, ConstantOfShape([3]))',
      'Add(in(N,3), ConstantOfShape(in(int64 1 3..4)) value=float32:[2])',
    ],
    dependent: [
      'x = in(N,3)\nAdd(x, ConstantOfShape([2,3]))',
      'Add(in(N,2), ConstantOfShape(in(int64 2 2..3)) value=float32:[2])',
    ],
  },
  Shape: {
    independent: [
      'x = in(N,3)\nReshape(Relu(x), Shape(x))',
      'x = in(N,3)\nDiv(x, Cast(Shape(x) start=1) to=float32)',
    ],
    same: [
      'x = in(N,3)\ns = Slice(CumSum(x, 0), [0], [2], [1])\nAdd(x, Cast(Gather(Shape(s), 1)) to=float32)',
    ],
    dependent: [
      'x = in(N,3)\nAdd(x, Cast(Shape(x) start=0 end=1) to=float32)',
      'x = in(N,3)\nDiv(x, Cast(Gather(Shape(x), 0)) to=float32)',
    ],
  },
  Size: {
    independent: ['Add(in(N,3), Cast(Size(k(2,3))) to=float32)'],
    dependent: ['x = in(N,3)\nDiv(x, Cast(Size(x)) to=float32)'],
  },
  Range: {
    independent: [
      'Add(in(N,3), Range(0.0, 3.0, 1.0))',
      'x = in(N,3)\nAdd(x, Cast(Range(0, Gather(Shape(x), 1), 1)) to=float32)',
      'x = in(N,3)\nReshape(x, Concat([-1], Shape(Range(0, Gather(Shape(x), 1), 1))) axis=0)',
    ],
    dependent: [
      'x = in(N)\nAdd(x, Cast(Range(0, Gather(Shape(x), 0), 1)) to=float32)',
      'x = in(N)\nn = Cast(Gather(Shape(x), 0)) to=float32\nAdd(x, Range(0.0, n, 1.0))',
      'x = in(N,3)\nGather(x, Range(1, Gather(Shape(x), 0), 1))',
      'x = in(N,3)\nGather(x, Range(0, Sub(Gather(Shape(x), 0), 1), 1))',
      'Add(in(N,3), ReduceSum(Cast(Range(0, in(int64 N 1..4), 1)) to=float32) keepdims=0)',
      'x = in(1,N,3)\nr = Range(0, Neg(Gather(Shape(x), 1)), 1)\nReshape(x, Concat(Neg(Shape(r)), [-1]) axis=0)',
    ],
  },
  EyeLike: {
    independent: ['MatMul(in(N,3), EyeLike(k(3,3)))'],
    dependent: [
      'EyeLike(in(N,3))',
      'EyeLike(in(3,N)) k=1 -> 1',
      'x = in(N,3)\nAdd(x, ReduceSum(EyeLike(x)) keepdims=0)',
    ],
  },
  ...each('HannWindow HammingWindow BlackmanWindow', (op) => ({
    independent: [`Mul(in(N,4), ${op}(4))`],
    dependent: [
      `x = in(N)\nMul(x, ${op}(Gather(Shape(x), 0)))`,
      `x = in(N,1)\nAdd(x, Cast(Size(${op}(Gather(Shape(x), 0)))) to=float32)`,
    ],
  })),
  MelWeightMatrix: {
    independent: [
      'MatMul(in(N,5), MelWeightMatrix(4, 8, 16000, 0.0, 8000.0))',
      'MatMul(in(N,2,9), MelWeightMatrix(6, 16, 8000, 100.0, 4000.0))',
    ],
    dependent: [
      'x = in(N,1)\nAdd(x, Cast(Size(MelWeightMatrix(Gather(Shape(x), 0), 8, 8000, 0.0, 4000.0))) to=float32)',
    ],
  },
  ...each('RandomNormalLike RandomUniformLike', (op) => ({
    dependent: [`${op}(in(N,9))`, `x = in(N,3)\nAdd(x, ${op}(x) seed=2.0)`],
  })),
  ...each('RandomNormal RandomUniform', (op) => ({ dependent: [`Add(in(N,3 1..2), ${op}() shape=[3])`] })),
  Bernoulli: { dependent: ['Bernoulli(in(N,30 0..1))'] },
  Multinomial: { dependent: ['Multinomial(in(N,30 0..1)) sample_size=9'] },

  // Products
  MatMul: {
    independent: [
      'MatMul(in(N,3), k(3,4))',
      'MatMul(in(N,2,3), k(3,4))',
      'MatMul(in(N,2,3), in(N,3,4))',
      'MatMul(k(4,3), in(N,3,2))',
      'MatMul(in(2,N,3), k(3,4)) -> 1',
      'MatMul(in(2,N,3), k(2,3,4)) -> 1',
      'MatMul(k(3), in(N,3,4))',
      'MatMul(in(N,3), k(3))',
      'MatMul(in(N,1,2,3), in(N,4,3,2))',
      'MatMul(k(2,3), in(3,N)) -> 1',
      'MatMul(in(N,2,3), k(1,3,4))',
      'MatMul(in(N,2,3), in(3,2))',
      'MatMul(k(3), in(3,N))',
      'Reshape(MatMul(in(N,2,3), k(3)), [-1,2])',
      'Reshape(MatMul(k(3), in(N,3,4)), [-1,4])',
    ],
    dependent: [
      'MatMul(in(3,N), in(N,4))',
      'x = in(N,3)\nMatMul(x, Transpose(x))',
      'MatMul(in(N,3), in(N,3,2))',
      'MatMul(in(N,2,3), k(2,3,4))',
      'MatMul(in(N), in(N,4))',
      'x = in(N,3)\nMatMul(MatMul(x, Transpose(x)), x)',
      'MatMul(in(N,2,3), in(2,N,3,4)) -> 0',
      'MatMul(in(3,N), k(2,4))',
    ],
  },
  Gemm: {
    independent: [
      'Gemm(in(N,3), k(3,4), k(4))',
      'Gemm(in(N,3), k(4,3)) transB=1 alpha=0.5',
      'Gemm(in(3,N), k(3,4), k(1,4)) transA=1',
      'Gemm(in(N,3), k(3,4), in(N,4)) beta=0.5',
      'Gemm(k(2,3), in(3,N)) -> 1',
      'Gemm(in(N,3), k(3,4), in(N,1))',
      'Gemm(k(2,3), in(N,3), in(N)) transB=1 -> 1',
    ],
    dependent: [
      'Gemm(in(N,3), k(3,4), k(2,4))',
      'Gemm(in(3,N), in(N,4))',
      'Gemm(in(N,2), in(N,4)) transA=1',
      'x = in(N,3)\nGemm(x, x) transB=1',
      'Gemm(in(N,3), k(3,4), k(2,1))',
    ],
  },
  Einsum: {
    independent: [
      `Einsum(in(N,2,3), in(N,3,2)) equation='bij,bjk->bik'`,
      `Einsum(in(N,3), k(3,2)) equation='bi,ij->bj'`,
      `Einsum(in(N,3), in(N,3)) equation='bi,bi->b'`,
      `Einsum(in(3,N)) equation='ib->bi'`,
      `Einsum(in(N,2,3), k(3,2)) equation='...i,ij->...j'`,
      `Einsum(in(N,3,3)) equation='bii->bi'`,
      `Einsum(in(N,3), in(N,2)) equation='bi,bj->bij'`,
      `Einsum(in(3,N), in(N,2)) equation='ib,bj->ibj' -> 1`,
      `Einsum(in(3,N)) equation='ib'`,
      `Reshape(Einsum(in(N,2,3), k(3,4)) equation='bij,jk->bik', [-1,8])`,
    ],
    dependent: [
      `Einsum(in(N,3), in(N,3)) equation='bi,ci->bc'`,
      `Einsum(in(N,3)) equation='bi->i'`,
      `x = in(N,3)\nAdd(x, Einsum(x) equation='bi->i')`,
      `Einsum(in(N,3), in(N,3)) equation='bi,bi->'`,
      `Einsum(in(N,3), in(N,3)) equation='bi,bj->ij'`,
      `x = in(N,1)\ny = Einsum(x, k(3)) equation='bi,i->bi'\nReshape(y, Concat([-1], Shape(x) start=1) axis=0)`,
    ],
  },

  // Convolutions and pooling
  Conv: {
    independent: [
      'Conv(in(N,2,5), k(3,2,2))',
      'Conv(in(N,2,4,4), k(3,2,3,3), k(3)) pads=[1,1,1,1] strides=[2,2]',
      'Conv(in(N,4,5), k(4,1,3)) group=4 dilations=[2]',
      `Conv(in(N,1,5), k(2,1,3)) auto_pad='SAME_UPPER'`,
      `Reshape(Conv(in(N,1,4), k(2,1,3)) auto_pad='SAME_UPPER' strides=[2], [-1,4])`,
    ],
    same: ['Conv(k(1,2,5), in(N,2,3)) -> 1'],
    dependent: [
      'Conv(in(1,2,N), k(2,2,3)) pads=[1,1] -> 2',
      'Conv(in(1,2,N,3), k(2,2,2,3)) pads=[0,0,1,0] -> 2',
      'Conv(in(N,2,5), in(N,2,3))',
    ],
  },
  ConvTranspose: {
    independent: [
      'ConvTranspose(in(N,2,3), k(2,2,2))',
      'ConvTranspose(in(N,2,3,3), k(2,1,2,2), k(1)) strides=[2,2] output_padding=[1,1]',
      'Reshape(ConvTranspose(in(N,1,3), k(1,1,3)) strides=[2] pads=[1,0] output_padding=[1], [-1,7])',
      'Reshape(ConvTranspose(in(N,1,3), k(1,1,2)) dilations=[2], [-1,5])',
      `Reshape(ConvTranspose(in(N,1,3), k(1,1,3)) strides=[2] auto_pad='SAME_UPPER', [-1,6])`,
      `Reshape(ConvTranspose(in(N,1,2), k(1,1,1)) strides=[3] auto_pad='SAME_LOWER', [-1,4])`,
      'y = ConvTranspose(in(N,2,3), k(2,2,2))\nReshape(y, Concat(Shape(y) start=0 end=1, [-1]) axis=0)',
    ],
    dependent: [
      'ConvTranspose(in(1,2,N), k(2,2,3)) pads=[1,1] -> 2',
      `Reshape(ConvTranspose(in(N,1,2), k(1,1,1)) strides=[3] auto_pad='SAME_LOWER', [-1,6])`,
    ],
  },
  ConvInteger: {
    independent: [
      'ConvInteger(in(uint8 N,2,5), k(uint8 3,2,2))',
      'ConvInteger(in(uint8 N,2,5), k(uint8 3,2,2), uint8:3)',
    ],
    dependent: ['ConvInteger(in(uint8 1,2,N), k(uint8 2,2,3)) pads=[1,1] -> 2'],
  },
  DeformConv: {
    independent: [
      'DeformConv(in(N,1,3,3), k(1,1,2,2), in(N,8,2,2))',
      'DeformConv(in(N,1,3,3), k(1,1,2,2), in(N,8,2,2), k(1), in(N,4,2,2))',
      'Reshape(DeformConv(in(N,1,3,3), k(2,1,2,2), in(N,8,2,2)), [-1,8])',
    ],
    dependent: [
      'DeformConv(in(1,1,N,3), k(1,1,1,2), in(1,4,N,2 0..2)) -> 2',
      'DeformConv(in(N,1,3,3), k(1,1,2,2), k(1,8,2,2))',
    ],
  },
  ...each('AveragePool MaxPool LpPool', (op) => ({
    independent: [
      `${op}(in(N,2,4)) kernel_shape=[2]`,
      `${op}(in(N,2,4,4)) kernel_shape=[2,2] strides=[2,2] pads=[0,0,1,1]`,
      `${op}(in(N,1,4,4)) kernel_shape=[2,2] auto_pad='SAME_LOWER'`,
      `${op}(in(2,N,4)) kernel_shape=[2] -> 1`,
      `Reshape(${op}(in(N,1,5)) kernel_shape=[2] strides=[2], [-1,2])`,
      `Reshape(${op}(in(N,1,6)) kernel_shape=[2] strides=[2] ceil_mode=1, [-1,3])`,
      `Reshape(${op}(in(N,1,5)) kernel_shape=[1] strides=[3] ceil_mode=1, [-1,2])`,
    ],
    dependent: [
      `Reshape(${op}(in(N,1,5)) kernel_shape=[1] strides=[3] ceil_mode=1, [-1,3])`,
      `${op}(in(1,2,N)) kernel_shape=[3] pads=[1,1] -> 2`,
      `${op}(in(1,1,N,3)) kernel_shape=[2,1] pads=[1,0,0,0] -> 2`,
    ],
  })),
  'MaxPool, Indices': {
    dependent: [
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2] strides=[2]\n-> _,0',
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2] strides=[2]\nAdd(v, Cast(i) to=float32)',
      'v, i = MaxPool(Reshape(in(N,2,4), [-1,1,4])) kernel_shape=[4]\nj = Slice(Reshape(i, [-1,2]), [0], [1], [1])\nGather(Reshape(in(N,4), [-1]), j)',
    ],
    independent: [
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2]\nGather(Reshape(in(N,4), [-1]), i)',
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2] strides=[2]\n-> 0,_',
    ],
  },
  'MaxPool, dilated': {
    dependent: [`Reshape(MaxPool(in(N,1,3)) kernel_shape=[2] dilations=[2] auto_pad='SAME_UPPER', [-1,3])`],
  },
  MaxUnpool: {
    independent: [
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2] strides=[2]\nMaxUnpool(v, i) kernel_shape=[2] strides=[2]',
      'x = in(N,1,4)\nv, i = MaxPool(x) kernel_shape=[2] strides=[2]\nMaxUnpool(v, i, Shape(x)) kernel_shape=[2] strides=[2]',
      'v, i = MaxPool(in(N,2,4)) kernel_shape=[2] strides=[2]\nu = MaxUnpool(Reshape(v, [-1,1,2]), Reshape(i, [-1,1,2])) kernel_shape=[2] strides=[2]\nReshape(u, [-1,2,4])',
      'Add(in(N,1,4), MaxUnpool(k(1,1,2), [[[1,2]]]) kernel_shape=[2] strides=[2])',
    ],
    dependent: [
      'MaxUnpool(in(N,1,2), in(int64 N,1,2 <4)) kernel_shape=[2] strides=[2]',
      'MaxUnpool(in(N,1,2), [[[0,3]]]) kernel_shape=[2] strides=[2]',
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2] strides=[2]\nMaxUnpool(k(1,1,2), i) kernel_shape=[2] strides=[2]',
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2] strides=[2]\nMaxUnpool(v, Transpose(i) perm=[1,0,2]) kernel_shape=[2] strides=[2]',
      'v, i = MaxPool(in(N,1,2)) kernel_shape=[2]\nMaxUnpool(Transpose(v) perm=[1,2,0], Transpose(i) perm=[1,2,0]) kernel_shape=[2] strides=[2] -> 2',
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2] strides=[2]\nMaxUnpool(v, i, [1,1,4]) kernel_shape=[2] strides=[2]',
      'x = in(N,1,4)\nv, i = MaxPool(x) kernel_shape=[2] strides=[2]\nMaxUnpool(v, i, Add(Shape(x), [0,0,2])) kernel_shape=[2] strides=[2]',
      'v, i = MaxPool(in(N,1,4)) kernel_shape=[2] strides=[2]\nu = MaxUnpool(Reshape(in(N,2,2), [-1,1,2]), Reshape(Expand(i, [1,2,1]), [-1,1,2])) kernel_shape=[2] strides=[2]\nReshape(u, [-1,2,4])',
    ],
  },
  ...each('GlobalAveragePool GlobalMaxPool GlobalLpPool', (op) => ({
    independent: [`${op}(in(N,2,4))`, `${op}(in(N,2,3,3))`, `${op}(in(2,N,4)) -> 1`],
    dependent: [`x = in(1,2,N)\nSub(x, ${op}(x)) -> 2`],
  })),
  MaxRoiPool: {
    same: [
      'MaxRoiPool(k(1,2,6,6), Concat(Mul(in(N,1 0..1), 0.0), in(N,2 0..2), in(N,2 3..5)) axis=1) pooled_shape=[2,2]',
    ],
    dependent: [
      'MaxRoiPool(in(N,1,6,6), k(2,5 0..1)) pooled_shape=[1,1]',
      'MaxRoiPool(in(N,1,6,6), Concat(Mul(in(N,1 0..1), 0.0), in(N,2 0..2), in(N,2 3..5)) axis=1) pooled_shape=[1,1]',
    ],
  },
  RoiAlign: {
    independent: [
      'RoiAlign(k(1,2,6,6), Concat(in(N,2 0..2), in(N,2 3..5)) axis=1, in(int64 N <1))',
      'RoiAlign(in(1,1,6,6), Concat(in(N,2 0..2), in(N,2 3..5)) axis=1, in(int64 N <1)) output_height=2 output_width=2',
      'x = in(N,1,6,6)\nRoiAlign(x, Concat(in(N,2 0..2), in(N,2 3..5)) axis=1, Range(0, Gather(Shape(x), 0), 1))',
      'Add(in(N,1,1,1), RoiAlign(k(1,1,6,6), [[0.0,0.0,4.0,4.0]], [0]))',
    ],
    dependent: [
      'RoiAlign(in(N,1,6,6), Concat(in(N,2 0..2), in(N,2 3..5)) axis=1, in(int64 N <1))',
      'RoiAlign(in(N,1,6,6), k(2,4 0..5), int64:[0,0])',
      'RoiAlign(k(1,1,6,6), [[0.0,0.0,4.0,4.0]], in(int64 N <1))',
      'RoiAlign(k(1,1,6,6), Concat(in(N,2 0..2), in(N,2 3..5)) axis=1, [0])',
      'x = in(N,1,6,6)\nRoiAlign(x, [[0.0,0.0,4.0,4.0]], Range(0, Gather(Shape(x), 0), 1))',
      'x = in(1,N,6,6)\nRoiAlign(x, Concat(in(N,2 0..2), in(N,2 3..5)) axis=1, Range(0, Gather(Shape(x), 1), 1))',
    ],
  },
  GridSample: {
    independent: [
      'GridSample(in(N,1,4,4), in(N,2,2,2 -1..1))',
      `GridSample(in(N,1,4,4), in(N,2,2,2 -1..1)) mode='cubic' padding_mode='border'`,
    ],
    dependent: [
      'GridSample(k(1,1,4,4), in(1,N,2,2 -1..1)) -> 0',
      'GridSample(in(1,1,N,3), k(1,2,2,2)) -> 0',
      'GridSample(in(N,1,4,4), k(1,2,2,2))',
    ],
    same: ['GridSample(k(1,1,4,4), in(1,N,2,2 -1..1)) -> 2'],
  },
  AffineGrid: {
    independent: ['t = in(N,2,3)\nAffineGrid(t, Concat(Shape(t) start=0 end=1, [1,2,3]) axis=0)'],
    dependent: [
      'AffineGrid(in(N,2,3), [2,1,2,3])',
      't = in(N,2,3)\nn = Shape(t) start=0 end=1\nAffineGrid(t, Concat(n, [1], n, [2]) axis=0)',
    ],
  },
  Resize: {
    independent: [
      `Resize(in(N,1,2,2), _, [1.0,1.0,2.0,2.0]) mode='nearest'`,
      `Resize(in(N,1,2,3), _, [1.0,1.0,2.0,1.5]) mode='linear'`,
      `Resize(in(N,1,4,4), _, [1.0,1.0,0.5,0.5]) mode='cubic' coordinate_transformation_mode='half_pixel'`,
      `Resize(in(N,1,4,4), _, _, [2,6]) axes=[2,3] mode='linear'`,
      `x = in(N,1,2,2)\nResize(x, _, _, Concat(Shape(x) start=0 end=2, [4,4]) axis=0) mode='linear'`,
      `Resize(in(N,1,2,2), _, in(2 1..3)) axes=[2,3] mode='nearest'`,
    ],
    dependent: [
      `Resize(in(N,1,2,2), _, [2.0,1.0,1.0,1.0]) mode='nearest'`,
      `Resize(in(N,3), _, [1.5,1.0]) mode='linear'`,
      `Resize(in(N,2), _, _, [3,2]) mode='linear'`,
      `Resize(Log(Abs(in(N,3))), _, [1.0,2.0]) mode='linear'`,
      `Resize(Log(Abs(in(1,1,N,2))), _, [1.0,1.0,1.0,2.0]) mode='linear' -> 2`,
      `Add(in(N,3), ReduceSum(Resize(k(4), _, in(N 1..2)) mode='nearest') keepdims=0)`,
      `x = in(1,1,N,2)\ny = Resize(x, _, [1.0,1.0,2.0,1.0]) mode='linear'\nResize(y, _, [1.0,1.0,0.5,1.0]) mode='linear' -> 2`,
    ],
  },
  Upsample: {
    independent: [`Upsample(in(N,1,2,2), [1.0,1.0,2.0,2.0]) mode='nearest' @9`],
    dependent: [`Upsample(in(N,1,2,2), [2.0,1.0,1.0,1.0]) mode='nearest' @9`],
  },
  DepthToSpace: {
    independent: [
      'DepthToSpace(in(N,4,2,2)) blocksize=2',
      `DepthToSpace(in(N,4,1,2)) blocksize=2 mode='CRD'`,
    ],
    dependent: ['DepthToSpace(in(2,4,N,2)) blocksize=2 -> 2'],
  },
  SpaceToDepth: {
    independent: ['SpaceToDepth(in(N,1,4,2)) blocksize=2'],
    dependent: ['SpaceToDepth(in(1,N,4,2)) blocksize=2 -> 1'],
  },
  Col2Im: {
    independent: [
      'Col2Im(in(N,4,4), [3,3], [2,2])',
      'y = Col2Im(in(N,4,4), [3,3], [2,2])\nReshape(y, Concat(Shape(y) start=0 end=1, [9]) axis=0)',
    ],
    dependent: ['Col2Im(in(1,4,N), [3,2], [2,2]) -> 2'],
  },

  // Normalisations
  BatchNormalization: {
    independent: [
      'BatchNormalization(in(N,3), k(3), k(3), k(3), k(3 1..2))',
      'BatchNormalization(in(N,3,2,2), k(3), k(3), k(3), k(3 1..2)) epsilon=0.001',
      'BatchNormalization(in(2,3,N), k(3), k(3), k(3), k(3 1..2)) -> 2',
    ],
    dependent: [
      'y, m, v = BatchNormalization(in(N,3), k(3), k(3), k(3), k(3 1..2)) training_mode=1\n-> 0,_,_',
      'BatchNormalization(in(2,N), k(2), k(2), k(2), k(2 1..2)) -> 1',
    ],
  },
  InstanceNormalization: {
    independent: ['InstanceNormalization(in(N,2,4), k(2), k(2))'],
    dependent: ['InstanceNormalization(in(1,2,N), k(2), k(2)) -> 2'],
  },
  GroupNormalization: {
    independent: ['GroupNormalization(in(N,4,3), k(4), k(4)) num_groups=2'],
    dependent: ['GroupNormalization(in(1,4,N), k(4), k(4)) num_groups=2 -> 2'],
  },
  LayerNormalization: {
    independent: [
      'LayerNormalization(in(N,3), k(3))',
      'LayerNormalization(in(N,2,3), k(2,3), k(2,3)) axis=1',
      'y, m, s = LayerNormalization(in(N,4), k(4))\n-> 0,0,0',
      'LayerNormalization(in(2,N,3), k(3)) axis=-1 -> 1',
    ],
    dependent: [
      'LayerNormalization(in(N,3), 1.5) axis=0',
      'LayerNormalization(in(2,N,3), k(3)) axis=1 -> 1',
      'LayerNormalization(in(3,N), 1.5) axis=-1 -> 1',
      'LayerNormalization(in(N,2,3), k(2,2,3)) axis=-1',
    ],
  },
  RMSNormalization: {
    independent: [
      'RMSNormalization(in(N,3), k(3)) axis=-1 @23',
      'RMSNormalization(in(N,2,3), k(2,3)) axis=1 @23',
    ],
    dependent: [
      'RMSNormalization(in(N,3), k(3)) axis=0 @23',
      'RMSNormalization(in(2,N,3), k(3)) axis=1 @23 -> 1',
    ],
  },
  LRN: {
    independent: [
      'LRN(in(N,4,3,1)) size=3',
      'LRN(in(N,4,2,2)) size=1 alpha=0.1',
      'LRN(in(1,3,N,1)) size=3 alpha=2.0 -> 2',
    ],
    dependent: ['LRN(in(2,N,3,1)) size=3 alpha=2.0 -> 1'],
  },
  LpNormalization: {
    independent: ['LpNormalization(in(N,3)) axis=1', 'LpNormalization(in(2,N,3)) axis=-1 p=1 -> 1'],
    dependent: ['LpNormalization(in(N,3)) axis=0', 'LpNormalization(in(2,N)) -> 1'],
  },
  MeanVarianceNormalization: {
    independent: [
      'MeanVarianceNormalization(in(N,2,2,2)) axes=[2,3]',
      'MeanVarianceNormalization(in(N,2,2,2)) axes=[1,2,3]',
    ],
    dependent: [
      'MeanVarianceNormalization(in(N,2,2,2))',
      'MeanVarianceNormalization(in(N,2,2,2)) @9',
      'MeanVarianceNormalization(in(1,N,2,2)) across_channels=1 @8 -> 1',
      'MeanVarianceNormalization(in(2,3,N)) axes=[0,2] -> 2',
    ],
  },
  ...each('Softmax LogSoftmax Hardmax', (op) => ({
    independent: [
      `${op}(in(N,3)) axis=1`,
      `${op}(in(N,3))`,
      `${op}(in(N,2,3)) axis=-2`,
      `${op}(in(2,N,3)) axis=2 -> 1`,
      `${op}(in(2,N,3)) axis=0 -> 1`,
      `${op}(in(N,2,3)) axis=1 @11`,
      `${op}(in(2,N,3)) axis=2 @11 -> 1`,
    ],
    dependent: [
      `${op}(in(N,3)) axis=0`,
      `${op}(in(3,N)) -> 1`,
      `${op}(in(2,N,3)) axis=1 -> 1`,
      `${op}(in(2,N,3)) axis=1 @11 -> 1`,
      `${op}(in(N,3)) axis=0 @11`,
      `${op}(in(N,2)) axis=-2`,
    ],
  })),

  // Reductions
  ...each(
    'ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare',
    (op) => {
      const values = op.includes('Log') ? ' 0.5..3' : ''
      return {
        independent: [
          `${op}(in(N,3${values}), [1]) keepdims=0`,
          `${op}(in(N,2,3${values}), [1,2])`,
          `${op}(in(2,N,3${values}), [0]) keepdims=0 -> 0`,
          `${op}(in(2,N,3${values}), [-1]) -> 1`,
          ...(op === 'ReduceSum' ? [] : [`${op}(in(N,3${values})) axes=[1] @13`]),
          `${op}(in(N,3${values}), _) noop_with_empty_axes=1`,
        ],
        dependent: [
          `${op}(in(N,3${values}))`,
          `x = in(N,3${values})\nSub(x, ${op}(x, [0]))`,
          `x = in(N,3${values})\nDiv(x, ${op}(x) keepdims=0)`,
          `x = in(2,N,3${values})\nSub(x, ${op}(x, [1])) -> 1`,
          `x = in(2,N${values})\nSub(x, ${op}(x, [-1])) -> 1`,
        ],
      }
    },
  ),
  ...each('ArgMax ArgMin', (op) => ({
    independent: [
      `${op}(in(N,4)) axis=1`,
      `${op}(in(N,2,4)) axis=-1 keepdims=0`,
      `${op}(in(2,N,4)) axis=0 keepdims=0 -> 0`,
    ],
    dependent: [
      `${op}(in(N,4)) axis=0`,
      `x = in(N,4)\nAdd(x, Cast(${op}(x) axis=0) to=float32)`,
      `x = in(2,N)\nAdd(x, Cast(${op}(x) axis=-1) to=float32) -> 1`,
    ],
  })),
  CumSum: {
    independent: ['CumSum(in(N,4), 1)', 'CumSum(in(2,N,3), -1) exclusive=1 reverse=1 -> 1'],
    dependent: ['CumSum(in(N,4), 0)', 'CumSum(in(2,N), -1) -> 1', 'CumSum(in(N,4), in(int64 <1))'],
  },
  CumProd: { independent: ['CumProd(in(N,4), 1) @26'], dependent: ['CumProd(in(N,4), 0) @26'] },
  TopK: {
    independent: [
      'v, i = TopK(in(N,5), [2])\n-> 0,0',
      'v, i = TopK(in(2,N,5), [3]) axis=2 largest=0\n-> 1,1',
      'v, i = TopK(in(4,N), [2]) axis=0\n-> 1,1',
      'v, i = TopK(in(N,5,2), [2]) axis=1 sorted=1\n-> 0,0',
    ],
    dependent: [
      'v, i = TopK(in(N,5), [1]) axis=0',
      'x = in(N,5)\nv, i = TopK(x, [1]) axis=0\nSub(x, v)',
      'x = in(N)\nv, i = TopK(x, Shape(x)) axis=0\n-> 0,_',
      'x = in(2,N)\nv, i = TopK(x, Shape(x) start=1) axis=1\n-> _,1',
    ],
  },
  Unique: {
    independent: [
      'Add(in(2,N,1), Cast(Unique(k(int64 3,2 <4))) to=float32) -> 1',
      'u = Unique(k(int64 3,2 <4)) axis=0\nReshape(in(N,4), Concat([-1,2], Shape(u) start=1) axis=0)',
      'u, a, b, c = Unique(k(int64 3,2 <4))\nReshape(in(N,6), Concat([-1], Shape(b)) axis=0)',
      'u, a, b, c = Unique(k(int64 3,2 <4)) axis=0\nReshape(in(N,3), Concat([-1], Shape(b)) axis=0)',
    ],
    dependent: ['Unique(in(int64 N,3 <4))', 'u, a, b, c = Unique(in(int64 N <4)) sorted=1\n-> _,_,0,_'],
  },
  NonZero: {
    dependent: [
      'NonZero(in(bool N,3))',
      'NonZero(in(bool N)) -> 1',
      'Transpose(NonZero(in(bool N)))',
      'x = in(N,3)\nones = ConstantOfShape(Shape(x) start=0 end=1) value=int64:[1]\nGather(Tile(x, [2,1]), Squeeze(NonZero(Tile(ones, [2])), [0]))',
      'z = NonZero(in(bool))\nReshape(Expand(in(N,1), Concat([1], Add(Shape(z) start=0 end=1, [1])) axis=0), [-1,1])',
    ],
  },
  Compress: {
    independent: [
      'Compress(in(N,3), bool:[1,0,1]) axis=1',
      'Compress(in(2,N,4), bool:[0,1]) axis=2 -> 1',
      'y = Compress(in(N,3,4), bool:[1,0,1]) axis=1\nReshape(y, Concat(Shape(y) start=0 end=1, [-1]) axis=0)',
    ],
    dependent: [
      'Compress(in(N,3), bool:[1,0]) axis=0',
      'Compress(in(N,3), in(bool N)) axis=0',
      'Compress(in(N,3), bool:[1,0,1])',
      'Compress(in(2,N), bool:[1]) -> 1',
    ],
  },
  NonMaxSuppression: {
    independent: [
      'Add(in(N,3), ReduceSum(Cast(NonMaxSuppression(k(1,4,4 0..1), k(1,1,4 0..1), [1])) to=float32) keepdims=0)',
    ],
    dependent: ['NonMaxSuppression(in(N,4,4 0..1), in(N,1,4 0..1), [2], [0.5], [0.1])'],
  },

  // Other forms of the same values
  Transpose: {
    independent: [
      'Transpose(in(N,3)) perm=[0,1]',
      'Transpose(in(N,3)) -> 1',
      'Transpose(in(N,2,3)) perm=[0,2,1]',
      'Transpose(in(2,N,3)) perm=[1,0,2]',
      'Transpose(in(N,2,3)) perm=[2,0,1] -> 1',
    ],
    dependent: ['Transpose(in(N,3))', 'Transpose(in(N,2,3)) perm=[1,0,2] -> 0'],
  },
  Reshape: {
    independent: [
      'Reshape(in(N,2,3), [-1,6])',
      'Reshape(in(N,6), [-1,2,3])',
      'Reshape(in(N,2,3), [0,6])',
      'Reshape(in(N,6), [0,-1])',
      'Reshape(in(N,2,3), [0,0,-1])',
      'Reshape(Transpose(Reshape(in(N,2,3), [-1,3])), [3,-1,2]) -> 1',
      'r = Reshape(in(N,2,3), [-1])\nReshape(r, [-1,6])',
      'Reshape(in(2,N), [2,-1,1]) -> 1',
      'Reshape(in(1,N,3), [-1,3])',
      'Add(in(N,3,4), Reshape(k(12), [3,-1]))',
    ],
    dependent: [
      'Reshape(in(N,6), [2,-1])',
      'Reshape(in(N,2,3), [-1,3])',
      'Reshape(in(2,N), [-1,2])',
      'Reshape(in(2,N,3), [-1,6])',
      'Reshape(in(N,6), [3,-1]) -> 1',
      'Reshape(in(2,N,3), [-1,2,3])',
      'Reshape(in(N,4), [2,2,-1]) -> 2',
      'Reshape(in(N,2), [-1,1,2]) -> 1',
      'Reshape(in(3,N), [-1,3])',
      'x = in(N,2)\nn = Shape(x) start=0 end=1\nReshape(x, Concat(n, n) axis=0)',
      'x = in(N,2)\ny = Reshape(in(2,2,N), Concat(Shape(x) start=0 end=1, [6]) axis=0)\nAdd(x, Cast(Gather(Shape(y), 1)) to=float32)',
      ...['', 'allowzero=1'].map(
        (zeros) => `x = in(N,1)
        open = Sub(Shape(x) start=1, [2])
        a = Reshape(k(4,6), Concat(open, [6]) axis=0) ${zeros}
        b = Reshape(k(4,6), Concat(open, [3]) axis=0) ${zeros}
        y = Mul(Unsqueeze(MatMul(x, k(1,1)), [2]), a)
        Reshape(y, Concat([-1], Shape(b) start=0 end=1, [6]) axis=0)`,
      ),
    ],
  },
  Flatten: {
    independent: [
      'Flatten(in(N,2,3))',
      'Flatten(in(N,2,3)) axis=1',
      'Flatten(in(N)) axis=1',
      'Flatten(in(1,N,3)) axis=2',
    ],
    dependent: [
      'Flatten(in(N,3)) axis=0',
      'Flatten(in(N,2,3)) axis=2',
      'Flatten(in(2,N,3)) -> 1',
      'Flatten(in(2,N,3)) axis=2',
      'Flatten(in(N,3)) axis=0 -> 1',
    ],
  },
  'Squeeze of no named axes': { dependent: ['Squeeze(in(N,3), k(int64 0))'] },
  Squeeze: {
    independent: ['Squeeze(in(N,1,3), [1])', 'Squeeze(in(1,N,1), [0,-1])', 'Squeeze(in(2,1,N), [1]) -> 1'],
    dependent: ['Squeeze(in(N,3), [0])', 'Squeeze(in(N,1,3))', 'x = in(N,3)\nAdd(x, Squeeze(x, [0]))'],
  },
  Unsqueeze: {
    independent: [
      'Unsqueeze(in(N,3), [1])',
      'Unsqueeze(in(N), [0,2]) -> 1',
      'Unsqueeze(in(N,3), [-1])',
      'Unsqueeze(in(N,3), [0]) -> 1',
    ],
    dependent: ['Unsqueeze(in(N,3), [0])'],
  },
  Expand: {
    independent: [
      'Expand(in(N,1), [1,4])',
      'Expand(in(N,1), [2,1,4]) -> 1',
      'Expand(in(N,3), [3])',
      'x = in(N,3)\nAdd(x, Expand(k(1,3), Shape(x)))',
    ],
    dependent: [
      'Expand(in(N,1), [3,1])',
      'Expand(in(N,1), [2,1,4])',
      'x = in(N,3)\nAdd(x, Expand(k(2,3), Shape(x)))',
    ],
  },
  Tile: {
    independent: [
      'Tile(in(N,2), [1,3])',
      'Tile(in(2,N), [2,1]) -> 1',
      'Tile(in(1,N,2), [3,1,1]) -> 1',
      'x = in(N,3)\nAdd(x, Tile(k(1,3), Concat(Shape(x) start=0 end=1, [1]) axis=0))',
    ],
    dependent: [
      'Tile(in(N,2), [2,1])',
      'Tile(in(N,2), in(int64 2 2..3))',
      'x = in(N,1)\nTile(x, Concat([1], Shape(x) start=0 end=1) axis=0) -> 1',
      'x = in(N,3)\nTile(k(1,3), Concat(Mul(Shape(x) start=0 end=1, [2]), [1]) axis=0)',
    ],
  },
  Concat: {
    independent: [
      'Concat(in(N,2), in(N,3)) axis=1',
      'Concat(in(2,N), in(1,N)) axis=0 -> 1',
      'Concat(in(N,2), in(N,2), in(N,1)) axis=-1',
    ],
    dependent: [
      'Concat(in(N,2), in(N,2)) axis=0',
      'Concat(in(N,2), k(1,2)) axis=0',
      'Concat(in(N,2), k(2,2)) axis=1',
      'Concat(k(1,2), in(N,2)) axis=0',
      'Concat(in(2,N), k(2,1)) axis=1 -> 1',
    ],
  },
  Split: {
    independent: [
      'a, b = Split(in(N,4)) num_outputs=2 axis=1\n-> 0,0',
      'a, b = Split(in(N,5), [2,3]) axis=1\n-> 0,0',
      'a, b = Split(in(2,N)) num_outputs=2 axis=0\n-> 1,1',
      'a, b = Split(in(N,4)) axis=1 @13\n-> 0,0',
      'Split(in(N,4)) num_outputs=1 axis=0',
      'x = in(N,2,3)\na, b = Split(Shape(x), [1,2]) axis=0\nReshape(x, Concat(a, [6]) axis=0)',
    ],
    dependent: [
      'Split(in(N,4), [2]) axis=0',
      's = Shape(Split(in(N,4), [2]) axis=0)\nAdd(in(N,2), Cast(Gather(s, 1)) to=float32)',
      'a, b = Split(in(N,3)) num_outputs=2 axis=0\n-> 0,_',
      'x = in(N,4)\ny = Concat(x, x, x) axis=0\na, b, c = Split(y) num_outputs=3 axis=0\nSub(ReduceMax(b, [0]), a)',
    ],
    same: [
      'x = in(N,4)\ny = Concat(x, Neg(x)) axis=0\na, b = Split(y) num_outputs=2 axis=0\nAdd(Relu(a), b)',
    ],
  },
  Slice: {
    independent: [
      'Slice(in(N,5), [1], [3], [1])',
      'Slice(in(N,5), [-1], [-9], [1], [-2])',
      'Slice(in(4,N), [1], [3], [0]) -> 1',
      'Slice(in(N,4,4), [0,1], [9,3], [1,2])',
      'Slice(in(N,5), in(int64 1 <2), [4], [1])',
      'Slice(in(N,3), [0], [9223372036854775807], [0])',
      'Slice(in(N,3), [0,0], [2147483647,2])',
      'Add(Slice(in(N,3), [-9], [2], [1]), MatMul(in(N,1), k(1,2)))',
      'x = in(N,3)\nReshape(Slice(x, [1], [2147483647], [1]), Concat([-1], Shape(Slice(x, [0], [-1], [1])) start=1) axis=0)',
      'x = in(N,3)\nReshape(Slice(x, [-2147483647], [1], [1]), Concat([-1], Shape(Slice(x, [0], [1], [1])) start=1) axis=0)',
      'x = in(N,5)\ny = Concat(Slice(x, [-3], [2147483647], [1]), Slice(x, [0], [-3], [1])) axis=1\nReshape(y, Concat([-1], Shape(x) start=1) axis=0)',
      'x = in(N,5)\ny = Concat(Slice(x, [2], [4], [1]), Slice(x, [4], [9], [1]), Slice(x, [0], [2], [1])) axis=1\nReshape(y, Concat([-1], Shape(Slice(x, [0], [9], [1])) start=1) axis=0)',
      'x = in(N,5)\nReshape(Slice(x, [-1], [-2147483648], [1], [-1]), Concat([-1], Shape(x) start=1) axis=0)',
      'x = in(N,5)\ny = Concat(Slice(x, [0], [99], [1], [2]), Slice(x, [1], [99], [1], [2])) axis=1\nReshape(y, Concat([-1], Shape(x) start=1) axis=0)',
      'Reshape(Slice(in(N,5), [0], [99], [1], [2]), [-1,3])',
      'Reshape(Slice(in(N,5), [9], [1], [1], [-2]), [-1,2])',
    ],
    dependent: [
      'Reshape(Slice(in(N,3), [-9], [2147483647], [1]), [-1,9])',
      'x = in(N,3)\ny = Slice(x, Shape(x) start=1, [-2], [1])\nReshape(Concat(y, MatMul(x, k(3,4))) axis=1, [-1,2])',
      'x = in(N,1)\ny = Slice(x, [1], [0], [1], [-1])\nReshape(Concat(y, MatMul(x, k(1,1))) axis=1, [-1,2])',
      ...['[-1], [2147483647]', '[-9], [-99]'].map(
        (range) =>
          `x = in(N,3)\ny = Slice(x, ${range}, [1], [-1])\nReshape(Concat(y, MatMul(x, k(3,1))) axis=1, [-1,1])`,
      ),
      'Slice(in(N,5), [0], [1], [0])',
      'Slice(in(N,5), [1], [9999], [0])',
      'Slice(in(N,5), [-1], [-9999], [0], [-1])',
      'x = in(N,5)\nSub(x, Slice(x, [0], [1], [0]))',
      'Slice(in(N,5), [0], [4])',
      'x = in(2,N)\nSub(x, Slice(x, [-1], [99], [1])) -> 1',
    ],
  },
  Pad: {
    independent: [
      'Pad(in(N,3), [0,1,0,1])',
      'Pad(in(N,3), [0,1,0,2], 1.5)',
      `Pad(in(N,4), [0,1,0,1]) mode='reflect'`,
      `Pad(in(N,2), [1,0], _, [1]) mode='edge'`,
      'Pad(in(2,N), [1,0,1,0]) -> 1',
      `Pad(in(N,3), [0,1,0,1]) mode='wrap'`,
    ],
    dependent: [
      'Pad(in(N,3), [1,0,0,0])',
      'Pad(in(N,3), [-1,0,1,0])',
      `Pad(in(2,N), [1,0], _, [-1]) mode='edge' -> 1`,
      'Pad(in(N,3), in(int64 4 1..2))',
    ],
  },
  CenterCropPad: {
    independent: ['CenterCropPad(in(N,5), [3]) axes=[1]', 'CenterCropPad(in(N,2), [4]) axes=[1]'],
    dependent: ['CenterCropPad(in(N,5), [2]) axes=[0]', 'CenterCropPad(in(N,5), [3,3])'],
  },
  Trilu: {
    independent: ['Trilu(in(N,3,3))', 'Trilu(in(N,3,3), 1) upper=0'],
    dependent: ['Trilu(in(N,3))', 'Trilu(in(2,N,3)) -> 1', 'Trilu(in(3,N)) upper=0 -> 1'],
  },
  Det: { independent: ['Det(in(N,3,3))', 'Det(in(2,N,2,2)) -> 1'] },
  ReverseSequence: {
    independent: [
      'ReverseSequence(in(N,4), in(int64 N 1..5)) batch_axis=0 time_axis=1',
      'ReverseSequence(in(4,N,2), in(int64 N 1..5)) batch_axis=1 time_axis=0 -> 1',
      'ReverseSequence(in(4,2,N), [1,3]) -> 2',
    ],
    dependent: [
      'x = in(N,2)\nReverseSequence(x, Expand(Shape(x) start=0 end=1, [2])) batch_axis=1 time_axis=0',
      'ReverseSequence(in(N,4), [1,3]) batch_axis=0 time_axis=1',
      'ReverseSequence(in(N,4), [2]) batch_axis=0 time_axis=1',
      'ReverseSequence(in(2,N), [1]) batch_axis=-1 time_axis=0 -> 1',
      'ReverseSequence(in(N,4), [1]) batch_axis=1 time_axis=-2',
      'Add(in(N,1), ReduceSum(ReverseSequence(k(4,1), in(int64 N 1..5))) keepdims=0)',
    ],
  },

  // By index
  Gather: {
    independent: [
      'Gather(in(N,5), [0,2]) axis=1',
      'Gather(k(5,3), in(int64 N,2 <5))',
      'Gather(k(2,5), in(int64 N <5)) axis=1 -> 1',
      'Gather(in(N,4), 1) axis=1',
      'Gather(in(4,N), -1) axis=0',
      'Gather(in(N,4), in(int64 2 <4)) axis=1',
      'Gather(in(5,3), in(int32 N <5))',
      'Gather(in(3,N,2), [[1,0],[2,2]]) axis=0 -> 2',
    ],
    dependent: [
      'Gather(in(N,3), [0])',
      'Gather(in(N,4), in(int64 N <4)) axis=1',
      'Gather(in(N,3), in(int64 N <1))',
      'x = in(N,3)\nSub(x, Gather(x, 0))',
      'x = in(N,3)\nSub(x, Gather(x, -1))',
      'x = in(2,N)\nSub(x, Gather(x, [0]) axis=1) -> 1',
    ],
  },
  GatherElements: {
    independent: [
      'GatherElements(in(N,4), in(int64 N,2 <4)) axis=1',
      'GatherElements(in(4,N), in(int64 3,N <4)) axis=0 -> 1',
      'GatherElements(k(5,3), in(int64 N,3 <5)) axis=0',
      'Add(in(N,3), GatherElements(k(3), [0,2,1]) axis=0)',
    ],
    dependent: [
      'GatherElements(in(N,4), in(int64 N,4 <1)) axis=0',
      'GatherElements(in(4,N), in(int64 4,N <1)) axis=-1 -> 1',
      'GatherElements(in(N,4), k(int64 1,4 <1)) axis=0',
      'GatherElements(in(N,4), k(int64 1,2 <3)) axis=1',
    ],
  },
  GatherND: {
    independent: [
      'GatherND(in(N,4,3), in(int64 N,1 <4)) batch_dims=1',
      'GatherND(k(4,3), in(int64 N,1 <4))',
      'GatherND(k(4,3), in(int64 N,2,2 <3))',
      'GatherND(in(N,2,3), in(int64 N,2,1 <3)) batch_dims=2',
      'GatherND(in(4,3), in(int64 N,2 <3))',
      'GatherND(in(2,N,3), [[0],[1]]) -> 1',
    ],
    dependent: [
      'GatherND(in(2,N), in(int64 N,1 <2)) -> 1',
      'GatherND(k(3,3,3), in(int64 2,N <3)) -> 0',
      'y = GatherND(k(3,4), in(int64 N,1 <3))\nSub(y, ReduceSum(y, [-2]))',
      'Reshape(GatherND(k(2,3), Reshape(in(int64 N,2 <3), [-1,1])) batch_dims=1, [-1,2])',
      'GatherND(in(N,3), [[0],[0]])',
      'GatherND(in(N,4), in(int64 N,1 <1))',
      'GatherND(in(N,3), [[0]])',
      'GatherND(in(N,4,3), k(int64 2,1 <3)) batch_dims=1',
    ],
  },
  ...each('ScatterElements Scatter', (op) => {
    const opset = op === 'Scatter' ? ' @10' : ''
    return {
      independent: [
        `${op}(in(N,4), in(int64 N,1 <4), in(N,1)) axis=1${opset}`,
        `${op}(in(4,N), in(int64 1,N <4), in(1,N)) axis=0${opset} -> 1`,
      ],
      dependent: [
        `${op}(in(N,4), in(int64 N,4 <1), in(N,4)) axis=0${opset}`,
        `${op}(in(N,4), k(int64 1,2 <3), k(1,2)) axis=1${opset}`,
        `${op}(in(2,N), in(int64 2,N <1), in(2,N)) axis=1${opset} -> 1`,
        `${op}(in(N,4), int64:[[0,0,0,0]], k(1,4)) axis=0${opset}`,
      ],
    }
  }),
  'ScatterElements, added up': {
    independent: [
      'Add(in(N,3), ScatterElements(k(3), [0], k(1)) axis=0)',
      `ScatterElements(in(N,4), in(int64 N,3 <4), in(N,3)) axis=1 reduction='add'`,
    ],
    dependent: [`ScatterElements(k(2,3), in(int64 N,3 <2), in(N,3)) axis=0 reduction='add'`],
  },
  ScatterND: {
    independent: [
      'x = in(2,N,3)\nTranspose(ScatterND(x, [[0]], in(1,N,3))) perm=[1,0,2]',
      'Add(in(N,3), ScatterND(k(3), [[0]], k(1)))',
    ],
    dependent: [
      'ScatterND(in(4,N), in(int64 N,1 <4), in(1,N)) -> 1',
      'Transpose(ScatterND(in(2,N,3), [[0]], in(N,1,3))) perm=[1,0,2]',
      'ScatterND(in(N,4), in(int64 N,1 <1), in(N,4))',
      'ScatterND(in(N,3), [[0]], k(1,3))',
      `ScatterND(k(3,2), in(int64 N,1 <3), in(N,2)) reduction='add'`,
    ],
  },
  TensorScatter: {
    independent: [
      'TensorScatter(in(N,1,4,2), in(N,1,1,2), in(int64 N <3)) @24',
      'TensorScatter(in(N,1,4,2), in(N,1,1,2)) @24',
      'Add(in(N,1,4,2), TensorScatter(k(1,1,4,2), k(1,1,1,2), [2])) @24',
    ],
    dependent: [
      'TensorScatter(in(N,1,4,2), k(1,1,1,2)) @24',
      'TensorScatter(in(N,1,4,2), in(N,1,1,2), [1,2]) @24',
      'TensorScatter(in(1,4,N,2), in(1,4,1,2)) axis=2 @24 -> 2',
    ],
  },
  OneHot: {
    independent: [
      'OneHot(in(int64 N <4), 4, [0.0,1.0])',
      'OneHot(in(int64 N <4), 4, [0.0,1.0]) axis=0 -> 1',
      'OneHot(in(int64 N,2 <3), 3, [1,5]) axis=1',
    ],
    dependent: [
      'x = in(int64 N <4)\nOneHot(x, Gather(Shape(x), 0), [0.0,1.0])',
      'OneHot(in(int64 N <4), in(int64 3..4), k(2)) -> 1',
      'OneHot(in(int64 N <3), in(int64 N 3..4), [0.0,1.0])',
    ],
  },

  // Recurrent: [time, batch, values]
  ...each('LSTM GRU RNN', (op) => {
    const gates = { LSTM: 4, GRU: 3, RNN: 1 }[op]!
    const one = `k(1,${gates * 2},3), k(1,${gates * 2},2)`
    const both = `k(2,${gates * 2},3), k(2,${gates * 2},2)`
    return {
      independent: [
        `y, h = ${op}(in(4,N,3), ${one}) hidden_size=2\n-> 2,1`,
        `y, h = ${op}(in(4,N,3), ${both}) hidden_size=2 direction='bidirectional'\n-> 2,1`,
        `y, h = ${op}(in(4,N,3), ${one}, k(1,${gates * 4})) hidden_size=2 direction='reverse'\n-> 2,1`,
        `y, h = ${op}(in(4,N,3), ${one}, _, in(int32 N 1..5), in(1,N,2)) hidden_size=2\n-> 2,1`,
        ...(op === 'LSTM'
          ? [`y, h, c = LSTM(in(2,N,3), ${one}, _, _, in(1,N,2), in(1,N,2), k(1,6)) hidden_size=2\n-> 2,1,1`]
          : []),
        ...(op === 'GRU'
          ? [`y, h = GRU(in(2,N,3), ${one}, k(1,12)) hidden_size=2 linear_before_reset=1\n-> 2,1`]
          : []),
      ],
      dependent: [
        `${op}(in(N,2,3), ${one}) hidden_size=2 -> 0`,
        `${op}(in(N,1,3), ${both}) hidden_size=2 direction='bidirectional' -> 0`,
        `y, h = ${op}(in(4,N,3), ${one}, _, int32:[2,3]) hidden_size=2\n-> 2,1`,
        `y, h = ${op}(in(4,N,3), ${one}, _, _, k(1,2,2)) hidden_size=2\n-> 2,1`,
      ],
    }
  }),

  // Attention and positions
  Attention: {
    independent: [
      'Attention(in(N,2,3,4), in(N,2,3,4), in(N,2,3,4)) @23',
      'Attention(in(N,3,8), in(N,3,8), in(N,3,8)) q_num_heads=2 kv_num_heads=2 is_causal=1 @23',
      'Attention(in(N,2,3,4), in(N,2,5,4), in(N,2,5,4), k(3,5)) @23',
      'Attention(in(N,2,3,4), in(N,2,5,4), in(N,2,5,4), in(N,1,3,5)) @23',
      'y, k, v = Attention(in(N,2,3,4), in(N,2,1,4), in(N,2,1,4), _, in(N,2,2,4), in(N,2,2,4)) @23\n-> 0,0,0',
    ],
    dependent: [
      'Attention(in(1,2,N,4), in(1,2,N,4), in(1,2,N,4)) @23 -> 2',
      'Attention(in(N,2,3,4), in(N,2,5,4), in(N,2,5,4), k(2,1,3,5)) @23',
      'Attention(in(1,N,8), in(1,N,8), in(1,N,8)) q_num_heads=2 kv_num_heads=2 is_causal=1 @23 -> 1',
    ],
  },
  RotaryEmbedding: {
    independent: [
      'RotaryEmbedding(in(N,2,3,4), k(9,2), k(9,2), in(int64 N,3 <9)) @23',
      'RotaryEmbedding(in(N,3,8), in(N,3,2), in(N,3,2)) num_heads=2 @23',
      'RotaryEmbedding(in(N,3,8), k(9,2), k(9,2), in(int64 N,3 <9)) num_heads=2 interleaved=1 @23',
    ],
    dependent: [
      'RotaryEmbedding(in(N,2,3,4), k(9,2), k(9,2), k(int64 2,3)) @23',
      'RotaryEmbedding(in(N,2,3,4), k(2,3,2), k(2,3,2)) @23',
    ],
  },

  // Quantised
  QuantizeLinear: {
    independent: [
      'QuantizeLinear(in(N,3), 0.5, uint8:100)',
      'QuantizeLinear(in(N,3), k(3 0.1..1), uint8:[1,2,3]) axis=1',
      'QuantizeLinear(in(2,N), k(2 0.1..1)) axis=0 -> 1',
      'QuantizeLinear(in(N,4), in(N,2 0.1..1), in(uint8 N,2)) axis=1 block_size=2',
      'QuantizeLinear(in(2,N), [0.5], uint8:[100]) axis=1 -> 1',
    ],
    dependent: [
      'QuantizeLinear(in(N,3), k(2 0.1..1), uint8:[1,2]) axis=0',
      'QuantizeLinear(in(N,4), k(1,1 0.1..1), k(uint8 1,1)) axis=1 block_size=4',
      'QuantizeLinear(k(2,4), in(N,2 0.1..1), in(uint8 N,2)) axis=1 block_size=2',
      'QuantizeLinear(in(N,4), in(2,N 0.1..1), in(uint8 2,N)) axis=1 block_size=2',
      'QuantizeLinear(in(2,N), in(2,N 0.1..1), in(uint8 2,N)) axis=1 block_size=2 -> 1',
    ],
    same: ['QuantizeLinear(in(N,3), in(N 0.1..1), in(uint8 N)) axis=0'],
  },
  DequantizeLinear: {
    independent: [
      'DequantizeLinear(in(uint8 N,3), 0.5, uint8:100)',
      'DequantizeLinear(in(int8 N,3), k(3 0.1..1)) axis=1',
      'DequantizeLinear(in(uint8 N,4), in(N,2 0.1..1), in(uint8 N,2)) axis=1 block_size=2',
    ],
    dependent: [
      'DequantizeLinear(in(uint8 N,3), k(2 0.1..1), uint8:[1,2]) axis=0',
      'DequantizeLinear(in(uint8 N,4), k(1,4 0.1..1), k(uint8 1,4)) axis=0 block_size=2',
    ],
    same: ['DequantizeLinear(in(uint8 N,3), in(N 0.1..1), in(uint8 N)) axis=0'],
  },
  DynamicQuantizeLinear: {
    dependent: [
      'y, s, z = DynamicQuantizeLinear(in(N,3))\n-> 0,_,_',
      'y, s, z = DynamicQuantizeLinear(in(N,3))\nDequantizeLinear(y, s, z)',
    ],
  },
  QLinearConv: {
    independent: [
      'QLinearConv(in(uint8 N,2,5), 0.5, uint8:3, k(uint8 3,2,2), 0.1, uint8:1, 0.7, uint8:9)',
      'QLinearConv(in(uint8 N,1,4,4), 0.5, uint8:3, k(int8 2,1,3,3), k(2 0.1..1), int8:[0,0], 0.7, uint8:9, int32:[5,6])',
      'QLinearConv(in(uint8 N,2,4,4), 0.25, uint8:2, k(uint8 2,1,2,2), 0.2, uint8:3, 0.5, uint8:7) group=2 strides=[2,2]',
    ],
    dependent: [
      'QLinearConv(in(uint8 N,2,5), 0.5, uint8:3, k(uint8 3,2,2), 0.1, uint8:1, 0.7, in(uint8 N))',
      'QLinearConv(in(uint8 1,2,N <200), 0.05, uint8:3, k(uint8 2,2,3), 0.1, uint8:1, 0.07, uint8:9) pads=[1,1] -> 2',
    ],
  },
  QLinearMatMul: {
    independent: [
      'QLinearMatMul(in(uint8 N,3), 0.5, uint8:3, k(uint8 3,4), 0.1, uint8:1, 0.07, uint8:9)',
      'QLinearMatMul(in(uint8 N,2,3), 0.5, uint8:3, in(uint8 N,3,4), 0.1, uint8:1, 0.07, uint8:9)',
    ],
    dependent: [
      'QLinearMatMul(in(uint8 3,N), 0.5, uint8:3, in(uint8 N,4), 0.1, uint8:1, 0.07, uint8:9)',
      'QLinearMatMul(in(uint8 N,2,3), 0.5, uint8:3, k(uint8 2,3,4), 0.1, uint8:1, 0.07, uint8:9)',
      'QLinearMatMul(in(uint8 N,3), 0.5, uint8:3, k(uint8 3,4), 0.1, uint8:1, 0.07, in(uint8 N))',
    ],
  },
  MatMulInteger: {
    independent: [
      'MatMulInteger(in(uint8 N,3), k(uint8 3,4))',
      'MatMulInteger(in(uint8 N,3), k(uint8 3,4), uint8:1, uint8:2)',
      'MatMulInteger(in(uint8 N,2,3), in(uint8 N,3,4))',
      'MatMulInteger(in(uint8 N,3), k(uint8 3,4), uint8:[1], uint8:[1,2,3,4])',
    ],
    dependent: [
      'MatMulInteger(in(uint8 3,N), in(uint8 N,4))',
      'x = in(uint8 N,3)\nMatMulInteger(x, Transpose(x))',
      'MatMulInteger(in(uint8 N,2,3), k(uint8 2,3,4))',
      'MatMulInteger(in(uint8 N,3), k(uint8 3,4), in(uint8 N))',
      'MatMulInteger(k(uint8 2,3), in(uint8 3,N), uint8:1, uint8:[1,2]) -> 1',
      'MatMulInteger(in(uint8 2,3), in(uint8 N,3,1), uint8:1, k(uint8 1,1,1))',
    ],
  },

  // Signals
  DFT: {
    independent: [
      'DFT(in(N,4,2)) axis=1 inverse=1 @17',
      'DFT(in(N,4,1)) axis=1 onesided=1 @17',
      'Reshape(DFT(Concat(in(N,2,2), in(N,1,2)) axis=1) axis=1 inverse=1 onesided=1, [-1,4]) @17',
    ],
    dependent: [
      'DFT(in(2,N,1)) axis=1 @17 -> 1',
      'Reshape(DFT(Concat(in(N,2,2), in(N,1,2)) axis=1) axis=1 inverse=1 onesided=1, [-1,3]) @17',
    ],
  },
  'DFT since version 20': {
    independent: [
      'DFT(in(N,4,1)) @20',
      'DFT(in(N,4,1), 8) @20',
      'DFT(in(N,4,1), _, 1) @20',
      'Reshape(DFT(in(N,5,1), 8, 1) onesided=1, [-1,10])',
    ],
    dependent: [
      'DFT(in(N,4,1), _, 0) @20',
      'DFT(in(2,N,1)) @20 -> 1',
      'x = in(N,4,1)\nDFT(x, Gather(Shape(x), 0)) @20',
      'DFT(in(1,4,N), _, 1) -> 2',
      'DFT(in(N,4,1), in(int64 N 3..9), 1)',
    ],
  },
  STFT: {
    independent: ['STFT(in(N,16), 4, k(8))', 'STFT(in(N,16,1), 4, _, 8)'],
    dependent: ['STFT(in(1,N), 2, k(1)) -> 1'],
  },

  // Strings
  StringConcat: {
    independent: [
      `StringConcat(in(string N,2), in(string N,2)) @20`,
      `StringConcat(in(string N,2), string:['x','y']) @20`,
    ],
    dependent: [`StringConcat(in(string N,2), string:[['x','y'],['v','w']]) @20`],
  },
  RegexFullMatch: { independent: [`RegexFullMatch(in(string N,2)) pattern='[a-z]+' @20`] },
  StringSplit: {
    dependent: [`y, n = StringSplit(in(string N)) @20\n-> 0,_`],
    independent: [`y, n = StringSplit(in(string N)) @20\n-> _,0`],
  },
  StringNormalizer: {
    independent: [
      `StringNormalizer(in(string N)) case_change_action='UPPER' locale='C'`,
      `StringNormalizer(in(string 1,N)) case_change_action='UPPER' locale='C' -> 1`,
    ],
    dependent: [`StringNormalizer(in(string N)) stopwords=['a','b','bc','A','x'] is_case_sensitive=1`],
  },
  TfIdfVectorizer: {
    independent: [
      `TfIdfVectorizer(in(int64 N,5 <4)) mode='TF' min_gram_length=1 max_gram_length=2 max_skip_count=0 ngram_counts=[0,3] ngram_indexes=[0,1,2,3] pool_int64s=[0,1,2,1,2]`,
    ],
    dependent: [
      `TfIdfVectorizer(in(int64 N <4)) mode='TF' min_gram_length=1 max_gram_length=1 max_skip_count=0 ngram_counts=[0] ngram_indexes=[0,1,2] pool_int64s=[0,1,2]`,
    ],
  },

  // Losses
  NegativeLogLikelihoodLoss: {
    independent: [
      `NegativeLogLikelihoodLoss(in(N,3), in(int64 N <3)) reduction='none'`,
      `NegativeLogLikelihoodLoss(in(N,3,2), in(int64 N,2 <3), k(3)) reduction='none'`,
    ],
    dependent: [
      'x = in(N,3)\nMul(x, NegativeLogLikelihoodLoss(x, in(int64 N <3)))',
      `x = in(N,3)\nMul(x, NegativeLogLikelihoodLoss(x, in(int64 N <3)) reduction='sum')`,
    ],
  },
  SoftmaxCrossEntropyLoss: {
    independent: [`l, p = SoftmaxCrossEntropyLoss(in(N,3), in(int64 N <3)) reduction='none'\n-> 0,0`],
    dependent: [
      'x = in(N,3)\nMul(x, SoftmaxCrossEntropyLoss(x, in(int64 N <3)))',
      `x = in(N,3)\nMul(x, SoftmaxCrossEntropyLoss(x, in(int64 N <3)) reduction='sum')`,
    ],
  },

  // Sequences and optional values
  SequenceConstruct: {
    independent: [
      'SequenceAt(SequenceConstruct(in(N,3), in(N,2)), 1)',
      'ConcatFromSequence(SequenceConstruct(in(N,3), in(N,2))) axis=1',
    ],
    dependent: ['ConcatFromSequence(SequenceConstruct(in(N,3), in(N,3))) axis=0'],
  },
  SequenceAt: {
    independent: ['SequenceAt(SequenceConstruct(in(N,3)), 0)'],
    dependent: ['SequenceAt(SplitToSequence(in(N,3)) axis=0, 0)'],
  },
  SplitToSequence: {
    independent: [
      'SequenceAt(SplitToSequence(in(N,4), [2,2]) axis=1, 1)',
      'ConcatFromSequence(SplitToSequence(in(N,4)) axis=1) axis=1',
      'SequenceAt(SplitToSequence(in(N,4)) axis=1 keepdims=0, 2)',
    ],
    dependent: [
      'x = in(N,3)\nSub(x, SequenceAt(SplitToSequence(x) axis=0, -1))',
      'SequenceAt(SplitToSequence(in(N,3), 1) axis=0, 0)',
      'x = in(N,3)\nIf(Equal(SequenceLength(SplitToSequence(x) axis=1), 0)) then_branch={ t = Relu(x) -> t } else_branch={ u = CumSum(x, 0) -> u }',
    ],
    same: ['ConcatFromSequence(SplitToSequence(in(N,3)) axis=0) axis=0'],
  },
  ConcatFromSequence: {
    independent: [
      'ConcatFromSequence(SequenceConstruct(in(N,3), in(N,3))) axis=1 new_axis=1',
      'ConcatFromSequence(SequenceConstruct(in(N,3), in(N,3))) axis=0 new_axis=1 -> 1',
    ],
    dependent: [
      'ConcatFromSequence(SequenceConstruct(in(N,3), k(1,3))) axis=0',
      'ConcatFromSequence(SequenceConstruct(in(N,3), in(N,3))) axis=0 new_axis=1',
    ],
  },
  SequenceInsert: {
    independent: [
      'SequenceAt(SequenceInsert(SequenceEmpty(), in(N,3)), 0)',
      'SequenceAt(SequenceInsert(SequenceConstruct(in(N,2)), in(N,3), 0), 1)',
    ],
    dependent: ['ConcatFromSequence(SequenceInsert(SequenceConstruct(in(N,2)), in(N,2))) axis=0'],
  },
  SequenceErase: {
    independent: ['SequenceAt(SequenceErase(SequenceConstruct(in(N,2), in(N,3)), 0), 0)'],
    dependent: ['SequenceAt(SequenceErase(SplitToSequence(in(N,3)) axis=0, -1), 0)'],
  },
  SequenceEmpty: { independent: ['SequenceAt(SequenceInsert(SequenceEmpty() dtype=float32, in(N,3)), 0)'] },
  SequenceLength: {
    independent: ['Add(in(N,3), Cast(SequenceLength(SequenceConstruct(in(N,2), in(N,2)))) to=float32)'],
    dependent: ['x = in(N,3)\nAdd(x, Cast(SequenceLength(SplitToSequence(x) axis=0)) to=float32)'],
  },
  SequenceMap: {
    same: [
      'ConcatFromSequence(SequenceMap(SplitToSequence(in(N,4), [2,2]) axis=1) body={ (a float32) b = Relu(a) -> b float32 }) axis=1',
    ],
  },
  OptionalHasElement: { independent: ['x = in(N,3)\nWhere(OptionalHasElement(x), x, 0.0)'], same: [] },
  OptionalGetElement: { independent: ['OptionalGetElement(Optional(in(N,3)))'] },
  Optional: { independent: ['Relu(OptionalGetElement(Optional(in(N,3))))'] },

  // Graphs inside
  If: {
    independent: [
      'x = in(N,3)\nIf(in(bool)) then_branch={ t = Relu(x) -> t } else_branch={ -> x }',
      'x = in(N,3)\nIf(bool:1) then_branch={ t = Relu(x) -> t } else_branch={ t = Neg(x) -> t }',
      'x = in(N,1,3)\nIf(Equal(Gather(Shape(x), 1), 1)) then_branch={ t = Squeeze(x, [1]) -> t } else_branch={ -> x }',
    ],
    dependent: [
      'x = in(N,3)\nIf(Greater(ReduceMax(x) keepdims=0, 10.0)) then_branch={ t = Neg(x) -> t } else_branch={ -> x }',
      'x = in(N,3)\nIf(Greater(Gather(Shape(x), 0), 2)) then_branch={ t = Neg(x) -> t } else_branch={ -> x }',
      'x = in(N,3)\nIf(in(bool)) then_branch={ t = Softmax(x) axis=0 -> t } else_branch={ u = Softmax(x) axis=0 -> u }',
      'x = in(N,3)\nIf(bool:0) then_branch={ -> x } else_branch={ t = Sub(x, ReduceMax(x, [0])) -> t }',
    ],
  },
  Loop: {
    independent: [
      'x = in(N,3)\nLoop(3, _, x) body={ (i int64[], c bool[], s float32) t = Tanh(Add(s, x)); -> c, t }',
      'x = in(N,3)\nLoop(in(int64 1..4), bool:1, x) body={ (i int64[], c bool[], s float32) t = MatMul(s, k(3,3)); -> c, t }',
      'x = in(N,3)\ns, y = Loop(3, _, x) body={ (i int64[], c bool[], s float32) t = Tanh(s); -> c, t, t }\n-> 0,1',
    ],
    same: [
      'x = in(N,3)\nLoop(Gather(Shape(x), 0), _) body={ (i int64[], c bool[]) r = Gather(x, i); -> c, r }',
    ],
    dependent: [
      'x = in(N,3)\nLoop(3, _, x) body={ (i int64[], c bool[], s float32) t = Softmax(s) axis=0; -> c, t }',
      'x = in(N,3)\nLoop(Gather(Shape(x), 0), _, x) body={ (i int64[], c bool[], s float32) t = Mul(s, 0.5); -> c, t }',
      'x = in(N,3)\nLoop(9, bool:1, x) body={ (i int64[], c bool[], s float32) t = Mul(s, 0.1); d = Greater(ReduceMax(t) keepdims=0, 5.0); -> d, t }',
      'x = in(N,3)\nLoop(9, bool:1, x) body={ (i int64[], c bool[], s float32) t = Mul(s, 0.1); d = Greater(ReduceMax(t, [1]) keepdims=0, 5.0); -> d, t }',
      'x = in(N,3)\nLoop(2, _, x) body={ (i int64[], c bool[], s float32) t = Add(s, Gather(x, [0])); -> c, t }',
    ],
  },
  Scan: {
    independent: [
      's, y = Scan(in(N,2), in(4,N,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Tanh(Add(s, x)); -> t, t }\n-> 0,1',
      's, y = Scan(k(1,2), in(4,N,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Tanh(x); -> s, t }\n-> _,1',
      's, y = Scan(in(N,2), in(N,4,2)) num_scan_inputs=1 scan_input_axes=[1] scan_output_axes=[1] body={ (s float32, x float32) t = Tanh(Add(s, x)); -> t, t }\n-> 0,0',
      's, y = Scan(in(N,2), in(N,4,2)) num_scan_inputs=1 scan_input_axes=[1] scan_output_axes=[2] body={ (s float32, x float32) t = Tanh(Add(s, x)); -> t, t }\n-> 0,0',
    ],
    same: [
      's, y = Scan(k(2), in(N,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Tanh(x); -> s, t }\n-> _,0',
    ],
    dependent: [
      's, y = Scan(k(2), in(N,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Add(s, x); -> t, t }\n-> _,0',
      'y = Scan(in(N,2), in(1,N)) num_scan_inputs=2 body={ (a float32, b float32) t = Add(a, ReduceMax(b) keepdims=0); -> t }',
      'Scan(in(int64 1 4..5), in(N,2), in(1,4,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Add(s, x); -> t } @8',
      's, y = Scan(in(N,2), in(4,N,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Softmax(Add(s, x)) axis=0; -> t, t }\n-> 0,1',
      's, y = Scan(k(2,1), in(2,N)) num_scan_inputs=1 scan_input_axes=[1] scan_output_axes=[1] body={ (s float32, x float32) u = Reshape(x, [2,1]); t = Add(s, u); v = Reshape(t, [2]); -> t, v }\n-> _,1',
    ],
  },
}
