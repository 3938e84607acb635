import { each, type CaseTable } from './case-table.ts'

const counted = 'x = in(N,3)\nn = Mod(Gather(Shape(x), [0]), [4])'
const placed = 'x = in(N,5,3)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nc = Concat(r, in(int64 N,1 <5)) axis=1'
const own = 'x = in(N,50)\ni = ArgMax(in(N,50)) axis=1 keepdims=0\nf = Add(Mul(Range(0, Gather(Shape(x), 0), 1), 50), i)'

const rowsOfFive = 'x = in(N,5,3)\nn = Gather(Shape(x), 0)\nr = Range(0, n, 1)\nflat = Reshape(x, [-1,3])'
const fromOwn = (index: string) => `${rowsOfFive}\nGather(flat, Add(Mul(r, 5), ${index}))`
const twoWays = 'a = Reshape(in(2,N,3), [-1,3])\nb = Reshape(in(N,2,3), [-1,3])'
const branches = (then: string, other: string) => `If(in(bool)) then_branch={ t = ${then} -> t } else_branch={ u = ${other} -> u }`

/** What a proof may stumble over. */
export const trapCases: CaseTable = {
  'indices within a row': {
    proved: ['Mod(in(int64 N -9..9), 5)', 'Clip(in(int64 N -9..9), 0, 4)', 'ArgMin(in(N,5)) axis=1 keepdims=0', 'Gather([4,0,2], in(int64 N <3))', 'Where(in(bool N), ArgMax(in(N,5)) axis=1 keepdims=0, 3)', 'Gather([1,2,3], ArgMax(in(N,3)) axis=1 keepdims=0)', 'Squeeze(NonZero([0,0,0,1]), [0])', '4'].map(fromOwn).concat(
      `${rowsOfFive}\nGather(flat, Add(Unsqueeze(Mul(r, 5), [1]), Range(0, 5, 1)))`,
      `${rowsOfFive}\nv, i = TopK(in(N,5), [2]) axis=1\nGather(flat, Add(Unsqueeze(Mul(r, 5), [1]), i))`,
      `${rowsOfFive}\nGather(flat, Range(0, Mul(n, 5), 5))`,
      `${rowsOfFive}\ni = ArgMax(in(N,5)) axis=1 keepdims=0\nf = Add(Mul(r, 5), i)\nGather(flat, Reshape(Transpose(Unsqueeze(f, [1])) perm=[1,0], [-1]))`,
    ),
    meets: ['Mod(in(int64 N -9..9), 6)', 'Mod(in(int64 N -9..9), -5)', 'Mod(in(int64 N -9..9), 5) fmod=1', 'Clip(in(int64 N -9..9), 0, 5)', 'Clip(in(int64 N -9..9), -1, 4)', 'Clip(in(int64 N -9..9), _, 4)', 'ConstantOfShape(Shape(r)) value=int64:[-1]', 'Gather([4,0,5], in(int64 N <3))', 'Where(in(bool N), ArgMax(in(N,5)) axis=1 keepdims=0, 5)', 'Where(in(bool N), 7, ArgMax(in(N,5)) axis=1 keepdims=0)', 'Gather([1,2,9], ArgMax(in(N,3)) axis=1 keepdims=0)', 'in(int64 N <7)', '-1', 'Neg(ArgMax(in(N,5)) axis=1 keepdims=0)', 'Mul(ArgMax(in(N,5)) axis=1 keepdims=0, 2)', 'Add(ArgMax(in(N,5)) axis=1 keepdims=0, 1)', 'Sub(ArgMax(in(N,5)) axis=1 keepdims=0, 1)', 'r', 'Add(r, ArgMax(in(N,5)) axis=1 keepdims=0)'].map(fromOwn).concat(
      `${rowsOfFive}\nv, i = TopK(in(N,6), [2]) axis=1\nGather(flat, Add(Unsqueeze(Mul(r, 5), [1]), i))`,
      `${rowsOfFive}\nGather(flat, Range(0, Mul(n, 4), 4))`,
      `${rowsOfFive}\nGather(flat, Mul(Add(r, 1), 4))`,
      `${rowsOfFive}\nGather(flat, Mul(r, n))`,
      `${rowsOfFive}\nGather(flat, Add(Mul(r, 5), Mod(n, 5)))`,
      `${rowsOfFive}\nGather(flat, ${branches('Mul(r, 5)', 'Mul(r, 4)')})`,
      `${rowsOfFive}\nGather(flat, ${branches('Mul(r, 4)', 'Mul(r, 5)')})`,
      `${rowsOfFive}\ni = ${branches('ArgMax(in(N,5)) axis=1 keepdims=0', 'ArgMax(in(N,9)) axis=1 keepdims=0')}\nGather(flat, Add(Mul(r, 5), i))`,
      `${rowsOfFive}\ni = ${branches('ArgMax(in(N,9)) axis=1 keepdims=0', 'ArgMax(in(N,5)) axis=1 keepdims=0')}\nGather(flat, Add(Mul(r, 5), i))`,
      'x = in(9,N)\nGather(x, Range(0, Gather(Shape(x), 1), 1)) axis=0',
      'x = in(2,N,3)\nGather(Reshape(x, [-1,3]), Mul(Range(0, Gather(Shape(x), 1), 1), 2))',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherElements(x, r) axis=1',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nScatterElements(x, r, in(N,1)) axis=1',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(x, r) batch_dims=1',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(k(9,3), r)',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(x, Concat(r, r) axis=1)',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(k(9,9), Concat(r, in(int64 N,1 <9)) axis=1)',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(k(9,9), Concat(in(int64 N,1 <9), r) axis=1)',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(x, Concat(in(int64 N,1 <1), r) axis=1)',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nScatterND(x, Concat(r, r) axis=1, in(N))',
      'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nScatterND(x, Concat(r, in(int64 N,1 <9)) axis=1, k(1))',
      'x = in(9,N)\nr = Unsqueeze(Range(0, Gather(Shape(x), 1), 1), [1])\nScatterND(x, r, MatMul(in(N,1), in(1,N))) -> 1',
      'x = in(1,1,6,6)\nr = Range(0, Gather(Shape(in(N)), 0), 1)\nRoiAlign(k(9,1,6,6), Concat(in(N,2 0..2), in(N,2 3..5)) axis=1, r)',
    ),
    same: [fromOwn('ConstantOfShape(Shape(r)) value=int64:[4]'), 'x = in(N,3)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nScatterND(x, r, in(N,3))', 'x = in(N,9)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nScatterND(x, Concat(r, in(int64 N,1 <9)) axis=1, in(N))', 'x = in(N,1,6,6)\nr = Range(0, Gather(Shape(x), 0), 1)\nRoiAlign(x, Concat(in(N,2 0..2), in(N,2 3..5)) axis=1, r)'],
  },
  'rows that lie in each other in two ways': {
    proved: ['Reshape(Add(Reshape(in(2,N,3), [-1,3]), Reshape(in(2,N,3), [-1,3])), [2,-1,3]) -> 1', 'Reshape(Concat(Reshape(in(N,2,3), [-1,3]), Reshape(in(N,2,3), [-1,3])) axis=1, [-1,2,6])'],
    meets: [
      ...['Add(a, b)', 'Where(Greater(a, 0.0), a, b)', 'Concat(a, b) axis=1', 'PRelu(a, b)', 'Max(b, a)', 'Sum(a, b, a)', `Einsum(a, b) equation='bi,bi->bi'`, 'GatherElements(a, ArgMax(b) axis=1) axis=1', 'ScatterElements(a, ArgMax(b) axis=1, ReduceMax(a, [1])) axis=1', 'ScatterElements(a, ArgMax(a) axis=1, ReduceMax(b, [1])) axis=1', 'GatherND(a, ArgMax(b) axis=1) batch_dims=1', 'Gemm(a, k(3,3), b)', 'ms.SkipLayerNormalization(a, b, k(3))', 'ml.FeatureVectorizer(a, b) inputdimensions=[3,3]', 'Squeeze(MatMul(Unsqueeze(a, [1]), Unsqueeze(b, [2])), [2])', 'NegativeLogLikelihoodLoss(a, ArgMax(b) axis=1 keepdims=0) reduction=\'none\'', 'ReverseSequence(a, Add(ArgMax(b) axis=1 keepdims=0, 1)) batch_axis=0 time_axis=1', 'Squeeze(GridSample(Reshape(a, [-1,1,1,3]), Reshape(Clip(Slice(b, [0], [2], [1]), -1.0, 1.0), [-1,1,1,2])), [1,2])', 'Reshape(RotaryEmbedding(Reshape(Concat(a, a) axis=1, [-1,1,1,6]), Reshape(b, [-1,1,3]), Reshape(b, [-1,1,3])), [-1,6]) @23'].map((op) => {
        const [text, version = ''] = op.split(/ (?=@\d+$)/)
        return `${twoWays}\ny = ${text}\nReshape(y, Concat([2,-1], Shape(y) start=1) axis=0) ${version} -> 1`
      }),
      `${twoWays}\ny, h = GRU(Unsqueeze(a, [0]), k(1,6,3), k(1,6,2), _, _, Unsqueeze(Slice(b, [0], [2], [1]), [0])) hidden_size=2\nReshape(h, [1,2,-1,2])\n-> 2`,
      `${twoWays}\ny = ${branches('Identity(a)', 'Identity(b)')}\nReshape(y, [2,-1,3]) -> 1`,
      `${twoWays}\ny = ${branches('Identity(b)', 'Identity(a)')}\nReshape(y, [-1,2,3])`,
      `${twoWays}\ny = Scan(a, b) num_scan_inputs=2 body={ (p float32, q float32) t = Add(p, q); -> t }\nReshape(y, [2,-1,3]) -> 1`,
    ],
    same: [`${branches('in(N,3)', 'Relu(in(N,3))')}`],
  },
  'large tensors of counts': {
    meets: ['Tile(count, [5000])', 'Expand(count, [5000])', 'Gather(count, Expand([0], [5000]))', 'Gather(Shape(x), in(int64 1 <1))', 'Slice(Shape(x), in(int64 1 <1), [1])', 'Gather(Shape(x), in(int64 <1))', 'Reshape(Tile(count, [4]), [2,2])', 'Transpose(Reshape(Tile(count, [4]), [2,2]))', 'GatherElements(Shape(x), [0])', 'GatherND(Shape(x), [[0]])', 'Unsqueeze(count, [0])', 'Where(Equal(in(int64 1 <1), 0), count, [9])', 'Concat(count, in(int64 1)) axis=0', 'ScatterElements([1,2], [0], count) axis=0', 'ConcatFromSequence(SequenceConstruct(count, count)) axis=0', 'SequenceAt(SequenceConstruct(count), 0)', 'SequenceAt(SplitToSequence(Shape(x)) axis=0, 0)', 'OptionalGetElement(Optional(count))', 'Identity(count)', 'Squeeze(count, [0])', 'Flatten(count)', 'Pad(count, [1,1])', 'Resize(Cast(count) to=float32, _, [2.0])', 'Max(count, [0])', 'Abs(count)', 'Pow(count, [2])', 'Mod(count, [2])', 'Trilu(Reshape(count, [1,1]))', 'CumSum(count, 0)', 'ReduceSum(Shape(x))', 'ReduceProd(Shape(x))', 'ReduceMax(Shape(x))', 'ReduceMean(Shape(x))', 'ReduceMin(Shape(x))', 'Size(x)', 'TopK', 'DepthToSpace(Cast(Reshape(count, [1,1,1,1])) to=float32) blocksize=1', 'Compress(Shape(x), bool:[1,0]) axis=0', 'Unique(count)', 'Einsum(Cast(count) to=float32) equation=\'i->i\'', 'MatMul(Cast(count) to=float32, k(1,2))', 'Softplus(Cast(count) to=float32)', 'Mul(OneHot(Mod(count, [3]), 3, [0,1]), [1,2,3])', 'Shape(NonZero(Sub(count, [1])))', 'Clip(count, 0, 9)', 'Equal(count, [2])', 'Range(0, Gather(count, 0), 1)'].filter((op) => op !== 'TopK').map((op) => `x = in(N,3)\ncount = Shape(x) start=0 end=1\nv = Cast(${op}) to=float32\nAdd(x, ReduceSum(v) keepdims=0)`),
  },
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
      ...['Gather(k(9,3), c)', 'GatherElements(k(9,9), c) axis=1', 'GatherElements(in(N,9), c) axis=1', 'ScatterElements(in(N,9), c, in(N,2)) axis=1', 'GatherND(k(9,9), c)', 'GatherND(in(N,9,9), c) batch_dims=1'].map((op) => `${placed}\n${op}`),
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
  'choices of all rows': {
    meets: ['Compress(in(N,3), in(bool N)) axis=1', 'ReverseSequence(in(N,2), [2,1]) batch_axis=1 time_axis=0', 'ScatterND(in(4,N), in(int64 N,1 <4), MatMul(in(N,1), in(1,N))) -> 1', 'Concat(in(N,2), Transpose(in(2,N))) axis=0 -> 0', 'v, i = TopK(in(N,4), in(int64 N 1..3)) axis=1', 'Trilu(in(N,3,3), in(int64 N <2))', 'CumSum(in(N,3), in(int64 N 1..2))', 'OneHot(in(int64 N <2), 2, in(N))', 'Expand(in(N,1), in(int64 N 3..4))', 'Slice(in(N,5), in(int64 N <2), [5], [1])', 'Clip(in(N,3), in(N), _)', 'Pad(in(N,3), [0,1,0,1], in(N))', 'QuantizeLinear(in(N,3), in(N 0.1..1))', 'BatchNormalization(in(N,2), in(N), k(2), k(2), k(2 1..2))', 'LayerNormalization(in(2,N), in(N)) -> 1', 'InstanceNormalization(in(2,N,3), in(N), k(2)) -> 1', 'Range(0, Gather(in(int64 N 3..4), 0), 1)', 'Tile(in(N,2), in(int64 N 1..2))', 'Conv(in(N,1,4), in(N,1,2))', 'Gemm(in(N,2), in(N,2), in(N)) transB=1', 'LRN(in(1,N,2,2)) size=3 alpha=9.0 -> 1', 'GroupNormalization(in(1,N,2), in(N), in(N)) num_groups=1 -> 1'],
  },
  'all of what is not 0': {
    proved: ['x = in(N,3)\nGather(x, Squeeze(NonZero(Expand([1], Shape(x) start=0 end=1)), [0]))', 'x = in(N,3)\nTranspose(Gather(Transpose(x), Squeeze(NonZero(Expand([2], Shape(x) start=1 end=2)), [0])))'],
    meets: ['x = in(N,3)\nGather(x, Squeeze(NonZero(Expand([0], Shape(x) start=0 end=1)), [0]))', 'x = in(N)\nGather(x, Squeeze(NonZero(Greater(x, 0.0)), [0]))', 'x = in(N,3)\nGather(x, Gather(NonZero(ConstantOfShape(Shape(x)) value=int64:[1]), 0))'],
  },
  'rows that are cropped, scaled or turned': {
    meets: [
      `x = in(N,4)\nResize(x, _, _, Concat(Shape(x) start=0 end=1, [2]) axis=0) keep_aspect_ratio_policy='not_larger' mode='nearest'`,
      `Resize(in(N,1,2,2), _, in(4 2..2.1)) mode='nearest'`,
      'y = Scan(in(N,3)) num_scan_inputs=1 scan_input_directions=[1] body={ (x float32) t = Tanh(x); -> t }',
      'y = Scan(in(N,3)) num_scan_inputs=1 scan_output_directions=[1] body={ (x float32) t = Tanh(x); -> t }',
    ],
    proved: ['s, y = Scan(in(N,2), in(4,N,2)) num_scan_inputs=1 scan_input_directions=[1] body={ (s float32, x float32) t = Tanh(Add(s, x)); -> t, t }\n-> 0,1'],
  },
  'sequences by place': {
    proved: ['y = SequenceAt(SequenceErase(SequenceConstruct(in(N,3), in(N,2))), 0)\nReshape(y, [-1,3])', 'y = SequenceAt(SequenceErase(SequenceConstruct(in(N,3), in(N,2)), 0), 0)\nReshape(y, [-1,2])', 'y = SequenceAt(SequenceInsert(SequenceConstruct(in(N,3)), in(N,2), 0), 0)\nReshape(y, [-1,2])', 'y = SequenceAt(SequenceInsert(SequenceConstruct(in(N,3)), in(N,2)), -1)\nReshape(y, [-1,2])', 'y = SequenceAt(SplitToSequence(in(N,5), [2,3]) axis=1, -1)\nReshape(y, [-1,3])', 'y = SequenceAt(SplitToSequence(in(N,5), 2) axis=1, 2)\nReshape(y, [-1])', 'y = ConcatFromSequence(SplitToSequence(in(N,5)) axis=1 keepdims=0) axis=1 new_axis=1\nReshape(y, [-1,5])'],
  },
  'shapes and their zeros': {
    proved: ['Reshape(in(N,2,3), [-1,6]) allowzero=1', 'ReduceMax(in(N,3), int64:[]) noop_with_empty_axes=1', 'Reshape(ReduceSum(Reshape(Tile(in(N,3), [2,1]), [2,-1,3]), [0]), [-1,3])', 'Flatten(in(N,3)) axis=-1', 'Slice(Shape(in(2,N,3)), [0], [1])\nx = in(N,3)\nAdd(x, 1.0)'],
    meets: ['x = in(N,3)\nSub(x, ReduceMax(x, int64:[]))', 'x = in(2,N,3)\nReduceSum(Reshape(Tile(x, [1,2,1]), [2,-1,2,3]), [2]) keepdims=0 -> 1', 'Reshape(Tile(in(N,3), [2,1]), [-1,2,3])'],
  },
  'older versions': {
    proved: [
      ...['Slice(in(N,5)) starts=[1] ends=[3] axes=[1] @9', 'Squeeze(in(N,1,3)) axes=[1] @11', 'Unsqueeze(in(N,3)) axes=[1] @11', 'Unsqueeze(in(N,3), [1]) @13', 'Squeeze(in(N,1,3), [1]) @13', 'ReduceSum(in(N,3), [1]) @13', 'ReduceMax(in(N,3), [1]) @18', 'ReduceMean(in(N,3)) axes=[1] @17', 'Pad(in(N,3), [0,1,0,1]) @11', 'Clip(in(N,3), 0.0, 1.0) @11', 'Slice(in(N,5), [1], [3], [1]) @10', 'Softmax(in(N,2,3)) axis=1 @13', 'Dropout(in(N,3), 0.5) @12', 'Clip(in(N,3)) min=0.0 max=1.0 @9', 'Pad(in(N,3)) pads=[0,1,0,1] @9', 'Dropout(in(N,3)) ratio=0.5 @10', 'ReduceSum(in(N,3)) axes=[1] keepdims=0 @11', 'BatchNormalization(in(N,3), k(3), k(3), k(3), k(3 1..2)) @9', 'Gemm(in(N,3), k(3,4), k(4)) @7', 'Softmax(in(N,2,3)) axis=1 @9', 'Softmax(in(N,2,3)) @9', 'LogSoftmax(in(2,N,3)) axis=2 @11 -> 1', 'Hardmax(in(N,2,3)) @11', `Upsample(in(N,1,2,2)) scales=[1.0,1.0,2.0,2.0] mode='nearest' @7`, `Resize(in(N,1,2,2), [1.0,1.0,2.0,2.0]) mode='nearest' @10`, 'Flatten(in(N,2,3)) @9', 'Cast(in(N,3)) to=float64 @9', 'ConstantOfShape(Shape(in(N,3))) value=float32:[2] @9', 's, y = Scan(in(N,2), in(4,N,2)) num_scan_inputs=1 body={ (s float32, x float32) t = Tanh(Add(s, x)); -> t, t } @9\n-> 0,1'],
      'v, i = TopK(in(N,5)) k=2 axis=1 @9\n-> 0,0',
      'a, b = Split(in(N,5)) split=[2,3] axis=1 @11\n-> 0,0',
    ],
    meets: [
      'Slice(in(N,5)) starts=[0] ends=[1] axes=[0] @9', 'x = in(N,3)\nSub(x, ReduceMax(x, [0])) @18', 'x = in(N,3)\nSub(x, ReduceSum(x, [0])) @13', 'x = in(N,3)\nSub(x, ReduceMean(x) axes=[0]) @17', 'Softmax(in(2,N,3)) axis=1 @13 -> 1', 'Softmax(in(2,N,3)) axis=0 @12 -> 1', 'Unsqueeze(in(N,3), [0]) @13',
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
