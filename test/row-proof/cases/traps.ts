import { each, type CaseTable } from './case-table.ts'

const counted = 'x = in(N,3)\nn = Mod(Gather(Shape(x), [0]), [4])'
const placed = 'x = in(N,5,3)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nc = Concat(r, in(int64 N,1 <5)) axis=1'
const own = 'x = in(N,50)\ni = ArgMax(in(N,50)) axis=1 keepdims=0\nf = Add(Mul(Range(0, Gather(Shape(x), 0), 1), 50), i)'

/** What a proof may stumble over. */
export const trapCases: CaseTable = {
  'indices by the number of rows': {
    meets: [
      `${counted}\nAdd(x, GatherElements(k(4), n) axis=0)`,
      `${counted}\nAdd(x, Gather(k(4), n))`,
      `${counted}\nAdd(x, GatherND(k(4,3), Unsqueeze(n, [0])))`,
      `${counted}\nAdd(x, ReduceSum(Mul(ScatterElements(k(4), n, k(1)) axis=0, [1.0,2.0,3.0,4.0])))`,
      `${counted}\nAdd(x, ReduceSum(Mul(ScatterND(k(4), Unsqueeze(n, [0]), k(1)), [1.0,2.0,3.0,4.0])))`,
      `${counted}\nAdd(x, ReduceSum(Mul(Cast(OneHot(n, 4, [0,1])) to=float32, [1.0,2.0,3.0,4.0])))`,
      `${counted}\nAdd(x, Cast(Cast(n) to=float64) to=float32)`,
      `${counted}\nu = MaxUnpool(k(1,1,2), Reshape(Concat(n, [1]) axis=0, [1,1,2])) kernel_shape=[2] strides=[2]\nAdd(x, ReduceSum(Mul(u, [1.0,2.0,3.0,4.0])))`,
      `${counted}\nAdd(x, Slice(k(9), n, Add(n, [1])))`,
      `${counted}\nAdd(x, Cast(Compress([0,1,2,3], Equal([0,1,2,3], n)) axis=0) to=float32)`,
      `${counted}\ns = SplitToSequence(k(4,3)) axis=0\nAdd(x, SequenceAt(s, Squeeze(n, [0])))`,
      `${counted}\nAdd(x, ReduceSum(Trilu(k(3,3), Squeeze(Sub(n, [1]), [0])), [0]))`,
      `${counted}\nAdd(x, ReduceMax(k(3,3), Mod(n, [2])) keepdims=0)`,
      `${counted}\nv, i = TopK(k(4), Add(n, [1])) axis=0\nAdd(x, ReduceSum(v))`,
      `${counted}\nAdd(x, ReduceSum(CumSum(k(3,3), Squeeze(Mod(n, [2]), [0])), [0]) keepdims=0)`,
      `${counted}\nAdd(x, Cast(Gather(Shape(ConstantOfShape(n)), 0)) to=float32)`,
      `${counted}\nAdd(x, Cast(Size(Tile([1], n))) to=float32)`,
      `${counted}\nAdd(x, Cast(Gather(Shape(Pad([1], Concat(n, [0]) axis=0)), 0)) to=float32)`,
      `${counted}\nl = Loop(Squeeze(n, [0]), _, 1.0) body={ (i int64[], c bool[], s float32[]) t = Add(s, 1.0); -> c, t }\nAdd(x, l)`,
      `${counted}\nl = Loop(2, _, n) body={ (i int64[], c bool[], s int64) t = Add(s, [1]); -> c, t }\nAdd(x, Cast(l) to=float32)`,
      `${counted}\ns, y = Scan(n, [[1],[2]]) num_scan_inputs=1 body={ (s int64, e int64) t = Add(s, e); -> t, t }\nAdd(x, Cast(s) to=float32)`,
      `x = in(N,3)\nr = ReverseSequence(k(3,1), Add(Mod(Gather(Shape(x), [0]), [3]), [1])) batch_axis=1 time_axis=0\nAdd(x, Reshape(r, [3]))`,
      `${counted}\nAdd(x, ReduceSum(Resize(k(1,1,2,2), _, _, Concat([1,1,2], Add(n, [1])) axis=0) mode='linear'))`,
    ],
  },
  'indices that are moved about with places of rows': {
    meets: [
      ...['Transpose(c) perm=[0,1]', 'Reshape(c, [-1,2])', 'Reshape(c, [0,2,1])', 'Slice(c, [0], [1], [1])', 'Gather(c, [0]) axis=1', 'Gather(c, [1,0]) axis=1', 'Unsqueeze(c, [1])', 'Expand(c, [1,2])', 'Tile(c, [1,2])', 'Identity(c)', 'Concat(c, c) axis=1', 'Where(bool:1, c, [0,0])', 'Pad(c, [0,0,0,1])', 'Squeeze(Unsqueeze(c, [1]), [1])', 'Flatten(c)', 'Add(c, [0,0])', 'Mul(c, [1,1])', 'Sub(c, [0,0])', 'Neg(c)', 'ReduceMax(c, [1])', 'Max(c, [0,0])', 'Mod(c, [5,5])', 'Div(c, [2,2])', 'CumSum(c, 1)', 'Cast(c) to=int32', 'Clip(c, 0, 99)', 'Abs(c)', 'Equal(c, [0,0])', 'ConcatFromSequence(SequenceConstruct(c)) axis=1', 'OptionalGetElement(Optional(c))', 'Trilu(Unsqueeze(c, [1]))', 'GatherElements(c, in(int64 N,1 <1)) axis=1', 'ScatterElements(in(int64 N,2), in(int64 N,2 <2), c) axis=1', 'DepthToSpace(Cast(Reshape(c, [-1,2,1,1])) to=float32) blocksize=1', 'Resize(Cast(c) to=float32, _, [1.0,1.0])', 'OneHot(Gather(c, 0) axis=1, 3, [0,1])', 'If(bool:1) then_branch={ -> c } else_branch={ -> c }'].map((op) => `${placed}\nCast(${op}) to=float32`),
      ...['Transpose(r) perm=[0,1]', 'Squeeze(r, [1])', 'Mul(r, 1)', 'Mul(r, 2)', 'Mod(r, 2)', 'Div(r, 2)', 'Add(r, r)', 'Min(r, 1)', 'Clip(r, 0, 1)', 'Greater(r, 0)', 'BitShift(Cast(r) to=uint32, uint32:1) direction=\'LEFT\'', 'Concat(r, r) axis=1', 'Expand(r, [1,3])', 'Reshape(r, [-1])', 'Sub(r, 1)', 'Where(Equal(r, 0), r, r)', 'Cast(r) to=int8', 'Cast(r) to=bool', 'CastLike(r, 1.0)', 'Relu(Cast(r) to=float32)', 'Gather([5,6,7,8,9,9,9,9,9], r)', 'OneHot(r, 2, [0.0,1.0])'].map((op) => `${placed}\nCast(${op}) to=float32`),
    ],
  },
  'own rows by too few bits': {
    meets: [
      `${own}\nGather(Reshape(x, [-1]), Cast(Cast(f) to=int8) to=int64)`,
      `${own}\nGather(Reshape(x, [-1]), Cast(Cast(f) to=uint8) to=int64)`,
      'x = in(N,60)\nn = Gather(Shape(x), [0])\ne = Expand(k(1), Cast(Cast(Mul(n, [100])) to=uint8) to=int64)\nAdd(x, Cast(Shape(e)) to=float32)',
      'x = in(N,60)\nn = Cast(Cast(Mul(Shape(x) start=0 end=1, [60])) to=uint8) to=int64\nReshape(Reshape(x, n), [-1,60])',
    ],
    proved: [`${own}\nGather(Reshape(x, [-1]), f)`, `${own}\nGather(Reshape(x, [-1]), Cast(Cast(f) to=int32) to=int64)`],
  },
  'constants that are computed': {
    meets: [
      ...['Equal(Cast(Cast(300) to=uint8) to=int64, 300)', 'Equal(Cast(Cast(2049.0) to=float16) to=float32, 2049.0)', 'Equal(9223372036854775807, 9223372036854775806)', 'Greater(Mul(int32:2000000000, int32:2), int32:0)', 'Equal(Cast(Cast(16777217) to=float32) to=int64, 16777217)', 'Equal(nan, nan)', 'Less(Cast(Cast(-1) to=uint32) to=int64, -5)', 'OptionalHasElement()', 'Equal(Mod(-3, 2), -1)', 'Equal(Div(-3, 2), -2)', 'Equal(Cast(-1.5) to=int64, -2)', 'Equal(Round(2.5), 3.0)', 'IsNaN(1.0)', 'Equal(Neg(int32:-2147483648), int32:2147483647)', 'Equal(Add(0.1, 0.2), 0.31)', 'Equal(Mod(-3.5, 2.0) fmod=1, 0.5)', 'Cast(0.0) to=bool', 'Not(Cast(0.5) to=bool)', 'And(bool:1, bool:0)', 'Xor(bool:1, bool:1)', 'Equal(Floor(-0.5), 0.0)', 'Equal(Ceil(0.5), 0.0)', 'Equal(Pow(2, 3), 9)', 'Less(Abs(-2), 0)', 'Equal(Size([1,2,3]), 2)', 'Equal(ReduceProd([2,3]) keepdims=0, 5)', 'Equal(ReduceMin([2,3]) keepdims=0, 3)', 'Equal(Gather([4,5,6], -1), 4)', 'Equal(Gather(Slice([4,5,6], [2], [0], [0], [-1]), 0), 4)', 'Equal(Gather(Concat([1],[2]) axis=0, 1), 1)', 'Equal(Gather(Range(5, 0, -2), 1), 7)', 'Equal(Gather(Reshape(Transpose([[1,2],[3,4]]), [4]), 1), 2)', 'Equal(Gather(Tile([1,2], [2]), 2), 2)', 'Equal(Gather(Expand([7], [3]), 2), 1)', 'Equal(Gather(Squeeze(NonZero([0,3,4])), 0), 0)', 'Equal(Where(bool:0, 1, 2), 1)', 'Equal(Sum(1.0, 2.0), 2.0)', 'Equal(Max(1, 2), 1)', 'Equal(Min(1, 2), 2)', 'GreaterOrEqual(1, 2)', 'LessOrEqual(2, 1)', 'Equal(Clip(5, 0, 3), 5)', 'Equal(Sqrt(4.0), 4.0)', 'Equal(Sub(1, 2), 1)'].map(
        (condition) => `x = in(N,3)\nIf(${condition}) then_branch={ t = Relu(x) -> t } else_branch={ t = Sub(x, ReduceMax(x, [0])) -> t }`,
      ),
    ],
  },
  'turns of a loop': {
    meets: [
      'x = in(N,3)\nLoop(3, _, x) body={ (i int64[], c bool[], s float32) t = If(Equal(i, 0)) then_branch={ u = Relu(s) -> u } else_branch={ u = Softmax(s) axis=0 -> u }; -> c, t }',
      'x = in(N,3)\nl, m = Loop(3, _, x, 0) body={ (i int64[], c bool[], s float32, k int64[]) t = If(Equal(k, 0)) then_branch={ u = Relu(s) -> u } else_branch={ u = Softmax(s) axis=0 -> u }; j = Add(k, 1); -> c, t, j }\n-> 0,_',
      'x = in(N,2,3)\nl = Loop(2, _, x) body={ (i int64[], c bool[], s float32) u = Reshape(s, [0,-1]); t = Reshape(Transpose(u), [-1,2,3]); -> c, t }\nRelu(l)',
      'x = in(N,3)\nl, m = Loop(3, _, x, x) body={ (i int64[], c bool[], s float32, q float32) t = Sub(q, 1.0); u = Softmax(q) axis=0; -> c, t, u }\n-> 0,_',
      'x = in(N,3)\nl, m, o = Loop(3, _, x, x, x) body={ (i int64[], c bool[], s float32, q float32, p float32) t = Identity(q); u = Identity(p); v = Softmax(p) axis=0; -> c, t, u, v }\n-> 0,_,_',
      'x = in(N,3)\nLoop(3, _, x) body={ (i int64[], c bool[], s float32) d = Gather(Shape(x), 0); t = Div(s, Cast(d) to=float32); -> c, t }',
      's, y = Scan(in(N,2), in(4,N,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Sub(x, ReduceMean(s) keepdims=0); -> t, t }\n-> 0,1',
      's, q, y = Scan(in(N,2), in(N,2), in(4,N,2)) num_scan_inputs=1 body={ (s float32, q float32, x float32) t = Add(q, x); u = Softmax(q) axis=0; -> t, u, t }\n-> _,_,1',
      'x = in(N,3)\ns = Loop(2, _, 1.0) body={ (i int64[], c bool[], s float32[]) t = Add(s, ReduceMax(x) keepdims=0); -> c, t }\nAdd(x, s)',
      'x = in(N,3)\ny = Scan(k(2,1,3)) num_scan_inputs=1 body={ (e float32) t = Add(e, ReduceMax(x) keepdims=0); -> t }\nAdd(x, Reshape(ReduceSum(y, [0]), [3]))',
    ],
    proved: [
      'x = in(N,3)\nl, m = Loop(3, _, x, 0) body={ (i int64[], c bool[], s float32, k int64[]) t = If(Equal(k, 0)) then_branch={ u = Relu(s) -> u } else_branch={ u = Softmax(s) axis=1 -> u }; j = Add(k, 1); -> c, t, j }\n-> 0,_',
      'y = Scan(in(N,3)) num_scan_inputs=1 body={ (x float32) t = Softmax(x) axis=0; -> t }', 'y = Scan(in(N,2,3)) num_scan_inputs=1 body={ (x float32) t = Sub(x, ReduceMax(x) keepdims=0); -> t }',
    ],
  },
  'masks of several numbers a row': {
    meets: ['ms.Attention(in(N,3,4), k(4,12), k(12), Reshape(in(int32 N,2 1..4), [-1])) num_heads=2'],
    same: ['m = in(int32 N 3..4)\ns = in(int32 N <1)\nms.Attention(in(N,3,4), k(4,12), k(12), Reshape(Concat(Unsqueeze(m, [0]), Unsqueeze(s, [0])) axis=0, [-1])) num_heads=2'],
  },
  'shapes and their zeros': {
    proved: ['Reshape(in(N,2,3), [-1,6]) allowzero=1', 'ReduceMax(in(N,3), int64:[]) noop_with_empty_axes=1', 'Reshape(ReduceSum(Reshape(Tile(in(N,3), [2,1]), [2,-1,3]), [0]), [-1,3])', 'Flatten(in(N,3)) axis=-1', 'Slice(Shape(in(2,N,3)), [0], [1])\nx = in(N,3)\nAdd(x, 1.0)'],
    meets: ['x = in(N,3)\nSub(x, ReduceMax(x, int64:[]))', 'x = in(2,N,3)\nReduceSum(Reshape(Tile(x, [1,2,1]), [2,-1,2,3]), [2]) keepdims=0 -> 1', 'Reshape(Tile(in(N,3), [2,1]), [-1,2,3])'],
  },
  'older versions': {
    proved: [
      ...['Slice(in(N,5)) starts=[1] ends=[3] axes=[1] @9', 'Squeeze(in(N,1,3)) axes=[1] @11', 'Unsqueeze(in(N,3)) axes=[1] @11', 'Clip(in(N,3)) min=0.0 max=1.0 @9', 'Pad(in(N,3)) pads=[0,1,0,1] @9', 'Dropout(in(N,3)) ratio=0.5 @10', 'ReduceSum(in(N,3)) axes=[1] keepdims=0 @11', 'BatchNormalization(in(N,3), k(3), k(3), k(3), k(3 1..2)) @9', 'Gemm(in(N,3), k(3,4), k(4)) @7', 'Softmax(in(N,2,3)) axis=1 @9', 'Softmax(in(N,2,3)) @9', 'LogSoftmax(in(2,N,3)) axis=2 @11 -> 1', 'Hardmax(in(N,2,3)) @11', `Upsample(in(N,1,2,2)) scales=[1.0,1.0,2.0,2.0] mode='nearest' @7`, `Resize(in(N,1,2,2), [1.0,1.0,2.0,2.0]) mode='nearest' @10`, 'Flatten(in(N,2,3)) @9', 'Cast(in(N,3)) to=float64 @9', 'ConstantOfShape(Shape(in(N,3))) value=float32:[2] @9', 's, y = Scan(in(N,2), in(4,N,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Tanh(Add(s, x)); -> t, t } @9\n-> 0,1'],
      'v, i = TopK(in(N,5)) k=2 axis=1 @9\n-> 0,0',
      'a, b = Split(in(N,5)) split=[2,3] axis=1 @11\n-> 0,0',
    ],
    meets: [
      'Slice(in(N,5)) starts=[0] ends=[1] axes=[0] @9',
      'Squeeze(in(N,3)) axes=[0] @11',
      'Pad(in(N,3)) pads=[1,0,0,0] @9',
      'x = in(N,3)\nSub(x, ReduceSum(x) axes=[0]) @11',
      'v, i = TopK(in(N,5)) k=1 axis=0 @9',
      'Softmax(in(2,N,3)) @11 -> 1',
      'Softmax(in(2,3,N)) axis=2 @11 -> 2',
      'Hardmax(in(N,3)) axis=0 @11',
      `Upsample(in(N,1,2,2)) scales=[2.0,1.0,1.0,1.0] mode='nearest' @7`,
      'Unsqueeze(in(N,3)) axes=[0] @11',
    ],
  },
  'more rows than one request may have': {
    meets: ['y, k, v = ms.GroupQueryAttention(in(N,2,16), in(N,2,8), in(N,2,8), in(N,1,4,8), in(N,1,4,8), in(int32 N 5..6), int32:6) num_heads=2 kv_num_heads=1\n-> 0,0,0'],
  },
  ...each('DFT', () => ({ meets: ['DFT(in(2,N,1)) @20 -> 1', 'x = in(N,4,1)\nDFT(x, Gather(Shape(x), 0)) @20'], proved: ['DFT(in(N,4,1)) @20', 'DFT(in(N,4,1), 8) @20'] })),
}
