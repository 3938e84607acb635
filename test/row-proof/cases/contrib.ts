import { each, type CaseTable } from './case-table.ts'

/** Operators of com.microsoft, which ONNX Runtime's exporters and optimisers write. */
export const contribCases: CaseTable = {
  // One value to one value, activations with a bias
  ...each('QuickGelu FastGelu', (op) => ({ independent: [`ms.${op}(in(N,4))`, `ms.${op}(in(2,N,4)) -> 1`] })),
  'Gelu of com.microsoft': { independent: ['ms.Gelu(in(N,4))', 'ms.Gelu(in(2,N,4)) -> 1'] },
  'FastGelu with a bias': { independent: ['ms.FastGelu(in(N,4), k(4))'] },
  BiasGelu: { independent: ['ms.BiasGelu(in(N,4), k(4))', 'ms.BiasGelu(in(N,2,4), in(4))'] },
  ExpandDims: {
    independent: ['ms.ExpandDims(in(N,4), int32:1)', 'ms.ExpandDims(in(N,4), int32:2)'],
    dependent: ['ms.ExpandDims(in(N,4), int32:0)'],
  },
  'Pad of com.microsoft': {
    independent: ['ms.Pad(in(N,3), [0,1,0,1])'],
    dependent: ['ms.Pad(in(N,3), [1,0,0,0])'],
  },
  'Range of com.microsoft': {
    independent: ['Add(in(N,3), ms.Range(0.0, 3.0))'],
    dependent: ['x = in(N)\nAdd(x, ms.Range(0.0, Cast(Gather(Shape(x), 0)) to=float32))'],
  },
  'Trilu of com.microsoft': { independent: ['ms.Trilu(in(N,3,3))'], dependent: ['ms.Trilu(in(N,3))'] },
  'Unique of com.microsoft': { dependent: ['u, i, c = ms.Unique(Round(in(N 0..3)))\n-> 0,_,_'] },
  MurmurHash3: {
    independent: ['ms.MurmurHash3(in(int32 N,3))'],
    dependent: [
      'x = in(N)\nAdd(x, Cast(Mod(ms.MurmurHash3(Cast(Mul(Range(0, Gather(Shape(x), 0), 1), 3)) to=int32) positive=0, int32:3)) to=float32)',
    ],
  },

  // Products
  ...each('FusedMatMul TransposeMatMul', (op) => ({
    independent: [
      `ms.${op}(in(N,3), k(3,4))`,
      `ms.${op}(in(3,N), k(3,4)) transA=1`,
      `ms.${op}(in(N,2,3), in(N,4,3)) transB=1 alpha=0.5`,
    ],
    dependent: [
      `ms.${op}(in(N,3), in(N,4)) transA=1`,
      `x = in(N,3)\nms.${op}(x, x) transB=1`,
      ...(op === 'FusedMatMul'
        ? [
            'ms.FusedMatMul(in(N,2,3), in(N,3,4)) transBatchA=1',
            'ms.FusedMatMul(in(N,2,3), in(N,3,4)) transBatchB=1',
          ]
        : []),
    ],
    same:
      op === 'FusedMatMul'
        ? [
            'ms.FusedMatMul(in(2,N,3), in(N,3,4)) transBatchA=1',
            'ms.FusedMatMul(in(2,N,3), in(2,N,4)) transBatchA=1 transBatchB=1 transA=1 -> 0',
          ]
        : [],
  })),
  FusedGemm: {
    independent: [`ms.FusedGemm(in(N,3), k(3,4), k(4)) activation='Relu'`],
    dependent: [`ms.FusedGemm(in(N,2), in(N,4), k(4)) transA=1 activation='Relu'`],
  },
  FusedConv: {
    independent: [
      `ms.FusedConv(in(N,2,4,4), k(3,2,3,3), k(3)) activation='Relu'`,
      `ms.FusedConv(in(N,2,4,4), k(3,2,3,3), k(3), in(N,3,2,2)) activation='Relu'`,
    ],
    dependent: [`ms.FusedConv(in(1,2,N,3), k(2,2,2,3)) pads=[0,0,1,0] activation='Relu' -> 2`],
  },
  CDist: {
    independent: [
      `ms.CDist(in(N,3), k(4,3)) metric='euclidean'`,
      `ms.CDist(k(4,3), in(N,3)) metric='sqeuclidean' -> 1`,
      'Reshape(ms.CDist(in(N,3), k(4,3)), [-1,4])',
    ],
    dependent: ['ms.CDist(k(4,2), in(3,N)) -> 1', `x = in(N,3)\nms.CDist(x, x)`],
  },
  Inverse: { independent: ['ms.Inverse(Add(in(N,2,2 0..1), [[3.0,0.0],[0.0,4.0]]))'] },

  // Normalisations
  SkipLayerNormalization: {
    independent: [
      'ms.SkipLayerNormalization(in(N,3,4), in(N,3,4), k(4), k(4), k(4))',
      'y, m, i, s = ms.SkipLayerNormalization(in(N,3,4), in(N,3,4), k(4))\n-> 0,_,_,0',
      'ms.SkipLayerNormalization(in(N,4), in(N,4), k(4), k(4))',
      'ms.SkipLayerNormalization(in(N,3,4), k(3,4), k(4))',
    ],
    dependent: ['ms.SkipLayerNormalization(in(N,4), k(2,4), k(4))'],
  },
  SkipSimplifiedLayerNormalization: {
    independent: [
      'ms.SkipSimplifiedLayerNormalization(in(N,3,4), in(N,3,4), k(4))',
      'y, m, i, s = ms.SkipSimplifiedLayerNormalization(in(N,3,4), in(N,3,4), k(4), k(4))\n-> 0,_,_,0',
    ],
  },
  SimplifiedLayerNormalization: {
    independent: [
      'SimplifiedLayerNormalization(in(N,4), k(4))',
      'SimplifiedLayerNormalization(in(N,2,3), k(2,3)) axis=1',
    ],
    dependent: [
      'SimplifiedLayerNormalization(in(N,4), k(4)) axis=0',
      'SimplifiedLayerNormalization(in(2,N,4), k(4)) axis=1 -> 1',
    ],
  },
  EmbedLayerNormalization: {
    independent: [
      'y, m = ms.EmbedLayerNormalization(in(int32 N,3 <5), in(int32 N,3 <2), k(5,4), k(6,4), k(2,4), k(4), k(4), in(int32 N,3 <2))\n-> 0,0',
      'y, m = ms.EmbedLayerNormalization(in(int32 N,3 <5), _, k(5,4), k(6,4), _, k(4), k(4))\n-> 0,0',
      'y, m = ms.EmbedLayerNormalization(in(int32 N,3 <5), _, k(5,4), k(6,4), _, k(4), k(4), _, in(int32 N,3 <6))\n-> 0,0',
      'y, m = ms.EmbedLayerNormalization(in(int32 N,3 <5), _, k(5,4), k(6,4), _, k(4), k(4), _, k(int32 1,3 <6))\n-> 0,0',
    ],
  },

  // Attention
  'Attention of com.microsoft': {
    independent: [
      'ms.Attention(in(N,3,4), k(4,12), k(12)) num_heads=2',
      'ms.Attention(in(N,3,4), k(4,12), k(12), in(int32 N 1..4)) num_heads=2',
      'ms.Attention(in(N,3,4), k(4,12), k(12), in(int32 N,3 <2)) num_heads=2',
      'y, p = ms.Attention(in(N,3,4), k(4,12), k(12), _, in(2,N,2,2,2)) num_heads=2 unidirectional=1\n-> 0,1',
    ],
    dependent: [
      'ms.Attention(in(1,N,4), k(4,12), k(12)) num_heads=2 -> 1',
      'ms.Attention(in(N,3,4), k(4,12), k(12), int32:[1,2]) num_heads=2',
    ],
  },
  MultiHeadAttention: {
    independent: [
      'ms.MultiHeadAttention(in(N,3,4), in(N,5,4), in(N,5,4)) num_heads=2',
      'ms.MultiHeadAttention(in(N,3,4), in(N,5,4), in(N,5,4), k(12), in(int32 N,5 <2)) num_heads=2',
      'ms.MultiHeadAttention(in(N,3,4), in(N,3,4), in(N,3,4), _, _, in(N,2,3,3)) num_heads=2',
      'ms.MultiHeadAttention(in(N,3,4), in(N,3,4), in(N,3,4), _, _, k(1,2,3,3)) num_heads=2',
      'y, k, v = ms.MultiHeadAttention(in(N,1,4), in(N,1,4), in(N,1,4), _, _, _, in(N,2,2,2), in(N,2,2,2)) num_heads=2\n-> 0,0,0',
    ],
    dependent: [
      'ms.MultiHeadAttention(in(1,N,4), in(1,N,4), in(1,N,4)) num_heads=2 -> 1',
      'ms.MultiHeadAttention(in(N,3,4), in(N,3,4), in(N,3,4), _, _, k(2,2,3,3)) num_heads=2',
    ],
  },
  // Of more than one token, its kernel takes one request only.
  GroupQueryAttention: {
    same: [
      'y, k, v = ms.GroupQueryAttention(in(N,1,16), in(N,1,8), in(N,1,8), in(N,1,4,8), in(N,1,4,8), in(int32 N 4..5), int32:5) num_heads=2 kv_num_heads=1\n-> 0,0,0',
    ],
    dependent: [
      'y, k, v = ms.GroupQueryAttention(in(N,1,16), in(N,1,8), in(N,1,8), in(N,1,4,8), in(N,1,4,8), int32:[2,4], int32:5) num_heads=2 kv_num_heads=1\n-> 0,0,0',
    ],
  },
  'RotaryEmbedding of com.microsoft': {
    independent: [
      'ms.RotaryEmbedding(in(N,3,8), in(int64 N,3 <9), k(9,4), k(9,4)) num_heads=1',
      'ms.RotaryEmbedding(in(N,3,8), [2], k(9,4), k(9,4)) interleaved=1 num_heads=1',
      'ms.RotaryEmbedding(in(N,2,3,8), in(int64 N,3 <9), k(9,4), k(9,4))',
    ],
    dependent: [
      'ms.RotaryEmbedding(in(N,3,8), k(int64 2,3 <9), k(9,4), k(9,4)) num_heads=1',
      'ms.RotaryEmbedding(in(1,N,8), [2], k(9,4), k(9,4)) num_heads=1 -> 1',
    ],
  },
  QAttention: {
    independent: [
      'ms.QAttention(in(uint8 N,3,4), k(uint8 4,12), k(12), 0.02, 0.01, _, uint8:3, uint8:1) num_heads=2',
      'ms.QAttention(in(uint8 N,3,4), k(uint8 4,12), k(12), 0.02, 0.01, in(int32 N 1..4), uint8:3, uint8:1) num_heads=2',
    ],
    dependent: [
      'ms.QAttention(in(uint8 1,N,4), k(uint8 4,12), k(12), 0.02, 0.01, _, uint8:3, uint8:1) num_heads=2 -> 1',
    ],
  },
  NGramRepeatBlock: { independent: ['ms.NGramRepeatBlock(in(int64 N,5 <4), in(N,4)) ngram_size=2'] },

  // Quantised
  DynamicQuantizeMatMul: {
    independent: ['ms.DynamicQuantizeMatMul(k(2,3), in(uint8 3,N), 0.1, uint8:1) -> 1'],
    dependent: [
      'ms.DynamicQuantizeMatMul(in(N,3), k(uint8 3,4), k(1 0.1..1), uint8:[1])',
      'ms.DynamicQuantizeMatMul(k(2,3), in(uint8 3,N), k(2 0.1..1), uint8:[1,2]) -> 1',
    ],
  },
  MatMulIntegerToFloat: {
    independent: [
      'ms.MatMulIntegerToFloat(in(uint8 N,3), k(uint8 3,4), 0.1, 0.2, uint8:3, uint8:1, k(4))',
      'ms.MatMulIntegerToFloat(in(uint8 N,3), k(uint8 3,4), 0.1, k(4 0.1..1))',
      'ms.MatMulIntegerToFloat(in(uint8 N,2,3), in(uint8 N,3,4), 0.1, 0.2, _, _, k(4))',
    ],
    dependent: [
      'ms.MatMulIntegerToFloat(in(uint8 2,3), in(uint8 3,N), 0.1, 0.2, _, _, k(2)) -> 1',
      'ms.MatMulIntegerToFloat(in(uint8 3,N), in(uint8 N,4), 0.1, 0.2)',
    ],
  },
  MatMulInteger16: { independent: ['ms.MatMulInteger16(in(int16 N,3), k(int16 3,4))'] },
  MatMulNBits: {
    independent: [
      'ms.MatMulNBits(in(N,16), k(uint8 4,1,8 <255), k(4 0.1..1)) K=16 N=4 bits=4 block_size=16',
      'ms.MatMulNBits(in(N,2,16), k(uint8 4,1,8 <255), k(4 0.1..1), k(uint8 4 <15)) K=16 N=4 bits=4 block_size=16',
      'ms.MatMulNBits(in(2,N,16), k(uint8 4,1,8 <255), k(4 0.1..1)) K=16 N=4 bits=4 block_size=16 -> 1',
    ],
    dependent: [
      'ms.MatMulNBits(in(1,N), k(uint8 4,1,8 <255), k(4 0.1..1)) K=2 N=4 bits=4 block_size=16 -> 1',
    ],
  },
  MatMulBnb4: {
    same: ['ms.MatMulBnb4(in(N,16), k(uint8 32 <255), k(4 0.1..1)) K=16 N=4 block_size=16 quant_type=1'],
  },
  MoE: { same: [`ms.MoE(in(N,4), in(N,2), k(2,6,4), k(2,6), k(2,4,6), k(2,4)) k=1 activation_type='relu'`] },
  DynamicQuantizeLSTM: {
    dependent: [
      'y, h = ms.DynamicQuantizeLSTM(in(3,N,3), k(uint8 1,3,8), k(uint8 1,2,8), _, _, _, _, _, k(1 0.1..1), uint8:[1], k(1 0.1..1), uint8:[1]) hidden_size=2\n-> 2,1',
      'ms.DynamicQuantizeLSTM(in(N,1,3), k(uint8 1,3,8), k(uint8 1,2,8), _, _, _, _, _, k(1 0.1..1), uint8:[1], k(1 0.1..1), uint8:[1]) hidden_size=2 -> 0',
    ],
  },
  'QuantizeLinear of com.microsoft': {
    independent: [
      'ms.QuantizeLinear(in(N,3), 0.5, uint8:3)',
      'ms.QuantizeLinear(in(N,3), k(3 0.1..1), uint8:[1,2,3]) axis=1',
    ],
    dependent: ['ms.QuantizeLinear(in(N,3), k(2 0.1..1), uint8:[1,2]) axis=0'],
  },
  'DequantizeLinear of com.microsoft': {
    independent: [
      'ms.DequantizeLinear(in(uint8 N,3), 0.5, uint8:3)',
      'ms.DequantizeLinear(in(uint8 N,3), k(3 0.1..1), uint8:[1,2,3]) axis=1',
    ],
    dependent: ['ms.DequantizeLinear(in(uint8 N,3), k(2 0.1..1), uint8:[1,2]) axis=0'],
  },
  ...each('QLinearAdd QLinearMul', (op) => ({
    independent: [
      `ms.${op}(in(uint8 N,3), 0.5, uint8:3, in(uint8 N,3), 0.2, uint8:1, 0.3, uint8:2)`,
      `ms.${op}(in(uint8 N,3), 0.5, uint8:3, k(uint8 3 <99), 0.2, uint8:1, 0.3, uint8:2)`,
    ],
    dependent: [
      `ms.${op}(in(uint8 N,3), 0.5, uint8:3, k(uint8 2,3 <99), 0.2, uint8:1, 0.3, uint8:2)`,
      `ms.${op}(in(uint8 N), 0.5, uint8:3, in(uint8 N,1), 0.2, uint8:1, 0.3, uint8:2)`,
    ],
  })),
  ...each('QLinearSigmoid QLinearLeakyRelu', (op) => ({
    independent: [
      `ms.${op}(in(uint8 N,3), 0.5, uint8:3, 0.01, uint8:2)`,
      `ms.${op}(in(uint8 2,N), 0.5, uint8:3, 0.01, uint8:2) -> 1`,
    ],
  })),
  QLinearSoftmax: {
    independent: [
      'ms.QLinearSoftmax(in(uint8 N,3), 0.5, uint8:3, 0.0039, uint8:0) axis=1 opset=13',
      'ms.QLinearSoftmax(in(uint8 2,N,3), 0.5, uint8:3, 0.0039, uint8:0) axis=2 opset=13 -> 1',
      'ms.QLinearSoftmax(in(uint8 2,N), 0.5, uint8:3, 0.0039, uint8:0) axis=0 opset=13 -> 1',
    ],
    dependent: [
      'ms.QLinearSoftmax(in(uint8 N,3), 0.5, uint8:3, 0.0039, uint8:0) axis=0 opset=13',
      'ms.QLinearSoftmax(in(uint8 2,N,3), 0.5, uint8:3, 0.0039, uint8:0) axis=1 opset=12 -> 1',
    ],
  },
  QLinearGlobalAveragePool: {
    independent: [
      'ms.QLinearGlobalAveragePool(in(uint8 N,2,3,3), 0.5, uint8:3, 0.4, uint8:2)',
      'Reshape(ms.QLinearGlobalAveragePool(in(uint8 N,3,3,2), 0.5, uint8:3, 0.4, uint8:2) channels_last=1, [-1,2])',
      'ms.QLinearGlobalAveragePool(in(uint8 2,N,3,3), 0.5, uint8:3, 0.4, uint8:2) -> 1',
    ],
  },
  QLinearAveragePool: {
    independent: [
      'ms.QLinearAveragePool(in(uint8 N,2,4,4), 0.5, uint8:3, 0.4, uint8:2) kernel_shape=[2,2]',
      'Reshape(ms.QLinearAveragePool(in(uint8 N,3,3,1), 0.5, uint8:3, 0.4, uint8:2) kernel_shape=[2,3] channels_last=1, [-1,2])',
    ],
    dependent: [
      'ms.QLinearAveragePool(in(uint8 1,1,N,3), 0.5, uint8:3, 0.4, uint8:2) kernel_shape=[2,1] pads=[1,0,0,0] -> 2',
    ],
  },
  QLinearConcat: {
    independent: [
      'ms.QLinearConcat(0.3, uint8:2, in(uint8 N,2), 0.5, uint8:3, in(uint8 N,3), 0.2, uint8:1) axis=1',
      'ms.QLinearConcat(0.3, uint8:2, in(uint8 N,2), 0.5, uint8:3) axis=1',
    ],
    dependent: [
      'ms.QLinearConcat(0.3, uint8:2, in(uint8 N,2), 0.5, uint8:3, in(uint8 N,2), 0.2, uint8:1) axis=0',
    ],
  },
  QLinearWhere: {
    independent: [
      'ms.QLinearWhere(in(bool N,3), in(uint8 N,3), 0.5, uint8:3, in(uint8 N,3), 0.2, uint8:1, 0.3, uint8:2)',
    ],
    dependent: [
      'ms.QLinearWhere(in(bool N,3), in(uint8 N,3), 0.5, uint8:3, k(uint8 2,3), 0.2, uint8:1, 0.3, uint8:2)',
    ],
  },
  'QLinearConv of com.microsoft': {
    independent: [
      'ms.QLinearConv(in(uint8 N,2,4,4), 0.5, uint8:3, k(uint8 3,2,2,2), 0.1, uint8:1, 0.7, uint8:9)',
      'ms.QLinearConv(in(uint8 N,4,4,2), 0.5, uint8:3, k(uint8 3,2,2,2), 0.1, uint8:1, 0.7, uint8:9) channels_last=1',
    ],
  },
  QGemm: {
    independent: [
      'ms.QGemm(in(uint8 N,3), 0.5, uint8:3, k(uint8 3,4), 0.1, uint8:1, _, 0.07, uint8:9)',
      'ms.QGemm(in(uint8 N,3), 0.5, uint8:3, k(uint8 3,4), 0.1, uint8:1, k(int32 4)) alpha=1.0',
      'ms.QGemm(in(uint8 N,3), 0.5, uint8:3, k(uint8 3,4), 0.1, uint8:1, in(int32 N,4), 0.07, uint8:9)',
    ],
    dependent: [
      'ms.QGemm(in(uint8 N,3), 0.5, uint8:3, k(uint8 3,4), 0.1, uint8:1, k(int32 2,4))',
      'ms.QGemm(k(uint8 2,3), 0.5, uint8:3, in(uint8 N,3), k(2 0.1..1), uint8:[1,2]) transB=1 -> 1',
      'ms.QGemm(in(uint8 N,3), 0.5, uint8:3, k(uint8 3,4), 0.1, uint8:1, _, 0.07, in(uint8 N))',
      'ms.QGemm(in(uint8 N,3), 0.5, uint8:3, in(uint8 N,4), 0.1, uint8:1) transA=1',
    ],
  },
  GatherBlockQuantized: {
    independent: [
      'ms.GatherBlockQuantized(k(uint8 5,16 <255), in(int64 N,2 <5), k(5,2 0.1..1)) block_size=16 bits=4 quantize_axis=1',
      'Transpose(ms.GatherBlockQuantized(k(uint8 5,16 <255), in(int64 N <5), k(5,2 0.1..1)) block_size=16 bits=4 quantize_axis=1) -> 1',
    ],
    dependent: [
      'ms.GatherBlockQuantized(in(uint8 N,16 <255), in(int64 N,2 <1), k(1,2 0.1..1)) block_size=16 bits=4 quantize_axis=1',
      'ms.GatherBlockQuantized(k(uint8 2,16 <255), in(int64 N <2), in(N,2 0.1..1)) block_size=16 bits=4 quantize_axis=1',
    ],
  },
  QEmbedLayerNormalization: {
    independent: [
      'y, m = ms.QEmbedLayerNormalization(in(int32 N,3 <5), _, k(uint8 5,4 <99), k(uint8 6,4 <99), _, k(uint8 4 <99), k(uint8 4 <99), _, 0.1, 0.1, _, 0.1, 0.1, uint8:0, uint8:0, _, uint8:0, uint8:0)\n-> 0,0',
    ],
    dependent: [
      'y, m = ms.QEmbedLayerNormalization(in(int32 N,3 <1), _, in(uint8 N,4 <99), k(uint8 6,4 <99), _, k(uint8 4 <99), k(uint8 4 <99), _, 0.1, 0.1, _, 0.1, 0.1, uint8:0, uint8:0, _, uint8:0, uint8:0)\n-> 0,0',
    ],
  },

  // Convolutions, pooling, pictures
  NhwcMaxPool: {
    independent: ['ms.NhwcMaxPool(in(uint8 N,4,4,2)) kernel_shape=[2,2]'],
    dependent: ['ms.NhwcMaxPool(in(uint8 1,N,3,2)) kernel_shape=[2,1] pads=[1,0,0,0] -> 1'],
  },
  MaxpoolWithMask: {
    dependent: ['ms.MaxpoolWithMask(in(N,1,4,4), in(int32 N,1,4,4 <2)) kernel_shape=[2,2]'],
  },
  ConvTransposeWithDynamicPads: {
    independent: [
      'ms.ConvTransposeWithDynamicPads(in(N,2,3,3), k(2,2,2,2), [0,0,0,0]) kernel_shape=[2,2]',
      'ms.ConvTransposeWithDynamicPads(in(N,1,4,4), k(1,3,3,3), [1,1,1,1]) kernel_shape=[3,3] strides=[2,2]',
    ],
  },
  CropAndResize: {
    same: ['ms.CropAndResize(k(1,2,5,5), in(N,4 0..1), Cast(Mul(in(N 0..1), 0.0)) to=int32, int32:[2,2])'],
    dependent: ['ms.CropAndResize(in(N,1,5,5), in(N,4 0..1), in(int32 N <1), int32:[2,2])'],
  },
  'GridSample of com.microsoft': { independent: ['ms.GridSample(in(N,1,4,4), in(N,2,2,2 -1..1))'] },
  UnfoldTensor: {
    independent: ['ms.UnfoldTensor(in(N,6)) dim=1 size=3 step=2'],
    dependent: ['ms.UnfoldTensor(in(N,6)) dim=0 size=1 step=2'],
  },
  'GatherND of com.microsoft': {
    independent: ['ms.GatherND(k(4,3), in(int64 N,1 <4))'],
    dependent: ['ms.GatherND(in(N,4), in(int64 N,1 <1))'],
  },
}
