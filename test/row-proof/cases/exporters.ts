import type { CaseTable } from './case-table.ts'

/** Several operators, as exporters write them. */
export const exporterCases: CaseTable = {
  'Reshape by shape arithmetic': {
    independent: [
      'x = in(N,3,4)\nn = Gather(Shape(x), 0)\nReshape(x, Concat(Unsqueeze(n, [0]), [12]) axis=0)',
      'x = in(N,6)\ns = Shape(x)\nn = Slice(s, [0], [1], [0])\nReshape(x, Concat(n, [2], Div(Slice(s, [1], [2]), [2])) axis=0)',
      'x = in(N,3,4)\ns = Shape(x)\nReshape(x, Concat(Unsqueeze(Gather(s, 0), [0]), Unsqueeze(Mul(Gather(s, 1), Gather(s, 2)), [0])) axis=0)',
      'x = in(N,2,6)\ny = Reshape(x, Concat(Unsqueeze(Mul(Gather(Shape(x), 0), 2), [0]), [6]) axis=0)\nz = Softmax(MatMul(y, k(6,6))) axis=1\nReshape(z, Concat(Unsqueeze(Gather(Shape(x), 0), [0]), [2,6]) axis=0)',
      'x = in(N,8)\nn = Cast(Gather(Shape(x), 0)) to=float32\nm = Cast(Floor(Div(n, 1.0))) to=int64\nReshape(x, Concat(Unsqueeze(m, [0]), [2,4]) axis=0)',
      'l = Shape(in(N,9)) start=1\nq = Expand(Unsqueeze(in(N), [1]), Concat([1], Div(l, [4])) axis=0)\nReshape(q, Concat([-1], Div(Div(l, [2]), [2])) axis=0) allowzero=1',
    ],
    dependent: [
      'x = in(N,3,4)\nn = Gather(Shape(x), 0)\nReshape(x, Concat([12], Unsqueeze(n, [0])) axis=0) -> 1',
      'x = in(N,4)\nReshape(x, Concat([2,2], Shape(x) start=0 end=1) axis=0) -> 2',
      'x = in(N,2,6)\ny = Reshape(x, [-1,6])\nz = Softmax(y) axis=0\nReshape(z, [-1,2,6])',
      'x = in(N,2,6)\ny = Reshape(x, Concat([2], Shape(x) start=0 end=1, [6]) axis=0)\nz = Transpose(y) perm=[1,0,2]\n-> 0',
    ],
  },
  'Expand by Where on shapes': {
    independent: [
      'x = in(N,1,4)\ns = Concat(Shape(x) start=0 end=1, [3,4]) axis=0\none = ConstantOfShape([3]) value=int64:[1]\nt = Where(Equal(s, Mul(one, -1)), one, s)\nExpand(x, t)',
      'x = in(N,3)\nm = Expand(k(1,3), Where(Equal([-1,3], Mul(ConstantOfShape([2]) value=int64:[1], -1)), ConstantOfShape([2]) value=int64:[1], [-1,3]))\nAdd(x, m)',
      'i = in(int64 N,4 <5)\ns = Shape(i)\np = Unsqueeze(Range(0, Gather(s, 1), 1), [0])\nGather(k(9,3), Add(i, Expand(p, s)))',
    ],
    dependent: ['x = in(N,1,4)\ns = [3,1,4]\nExpand(x, Where(Equal(s, [-1,-1,-1]), [1,1,1], s))'],
  },
  'ConstantOfShape to NonZero': {
    independent: [
      'x = in(N,4)\np = NonZero(ConstantOfShape(Shape(x) start=1) value=int64:[1])\nGather(x, Squeeze(p, [0])) axis=1',
      'x = in(N,4)\np = NonZero(ConstantOfShape(Shape(x) start=0 end=1) value=int64:[1])\nGather(x, Squeeze(p, [0])) axis=0',
    ],
    dependent: [
      'x = in(N,4)\np = NonZero(ConstantOfShape(Shape(x) start=0 end=1) value=int64:[1])\nAdd(x, Cast(Transpose(p)) to=float32)',
    ],
  },
  'If on shapes': {
    independent: [
      'x = in(N,4)\nIf(Equal(Size(Shape(x)), 2)) then_branch={ y = Unsqueeze(x, [1]) -> y } else_branch={ -> x }',
    ],
    dependent: [
      'x = in(N,1)\nIf(Equal(Gather(Shape(x), 0), 1)) then_branch={ y = Neg(x) -> y } else_branch={ -> x }',
    ],
  },
  'heads in one dimension with rows': {
    independent: [
      'x = in(N,3,4)\nq = Reshape(Transpose(Reshape(x, [0,0,2,2])) perm=[0,2,1,3], [-1,3,2])\ns = Softmax(MatMul(q, Transpose(q) perm=[0,2,1]))\ny = Reshape(MatMul(s, q), [-1,2,3,2])\nReshape(Transpose(y) perm=[0,2,1,3], [0,0,4])',
      'x = in(N,3,4)\nn = Gather(Shape(x), 0)\nq = Reshape(Transpose(Reshape(x, [0,0,2,2])) perm=[0,2,1,3], Concat(Unsqueeze(Mul(n, 2), [0]), [3,2]) axis=0)\nReshape(ReduceMean(q, [1]) keepdims=0, Concat(Unsqueeze(n, [0]), [4]) axis=0)',
      'x = in(N,2,6)\ny = Add(Reshape(x, [-1,6]), k(6))\nz = Reshape(y, [-1,2,6])\nReduceSum(z, [1]) keepdims=0',
    ],
    dependent: [
      'x = in(N,2,3)\ny = Reshape(x, [-1,3])\nz = Reshape(y, Concat([2], Shape(x) start=0 end=1, [3]) axis=0)\nReduceSum(z, [0]) keepdims=0',
      'x = in(N,2,3)\ny = Add(Reshape(x, [-1,3]), k(2,3))\nReshape(y, [-1,2,3])',
      'x = in(N,2,3)\ny = Softmax(Reshape(x, [-1,3])) axis=0\nReshape(y, [-1,2,3])',
      'x = in(N,2,3)\ny = Transpose(Reshape(x, [-1,3]))\nz = CumSum(y, 1)\nReshape(Transpose(z), [-1,2,3])',
    ],
  },
  'time first': {
    independent: [
      'x = in(N,4,3)\nt = Transpose(x) perm=[1,0,2]\ny = Reshape(MatMul(Reshape(t, [-1,3]), k(3,2)), [4,-1,2])\nTranspose(y) perm=[1,0,2]',
      'x = in(4,N,3)\ny = Reshape(x, [-1,3])\nz = Reshape(Relu(y), Concat([4], Shape(x) start=1 end=2, [3]) axis=0) -> 1',
      'x = in(N,4,3)\ny, h = GRU(Transpose(x) perm=[1,0,2], k(1,6,3), k(1,6,2)) hidden_size=2\nTranspose(Squeeze(y, [1])) perm=[1,0,2]',
      "x = in(N,4,3)\ny, h, c = LSTM(Transpose(x) perm=[1,0,2], k(2,8,3), k(2,8,2)) hidden_size=2 direction='bidirectional'\nr = Reshape(Transpose(y) perm=[0,2,1,3], [0,0,-1])\nTranspose(r) perm=[1,0,2]",
    ],
    dependent: [
      'x = in(4,N,3)\ny = Reshape(x, [-1,3])\nReshape(y, [-1,4,3])',
      'x = in(4,N,3)\nReshape(x, Concat(Shape(x) start=1 end=2, [4,3]) axis=0)',
      'x = in(N,4,3)\ny, h = GRU(x, k(1,6,3), k(1,6,2)) hidden_size=2\nSqueeze(y, [1])',
    ],
  },
  'constants of some rows': {
    dependent: [
      'Add(in(N,3), k(2,3))',
      'Mul(Relu(in(N,4)), k(3,1))',
      'Concat(in(N,3), k(2,1)) axis=1',
      'MatMul(in(N,2,3), k(3,3,4))',
      'Where(in(bool N,2), in(N,2), k(2,2))',
      'Softmax(Add(in(N,3), Expand(k(1,3), [2,3]))) axis=1',
      'x = in(N,3)\nAdd(x, Tile(k(1,3), [3,1]))',
    ],
  },
  'values by the number of rows': {
    dependent: [
      'x = in(N,3)\nDiv(x, Cast(Gather(Shape(x), 0)) to=float32)',
      'x = in(N,3)\nMul(x, Sqrt(Cast(Size(x)) to=float32))',
      'x = in(N,3)\nAdd(x, Div(ReduceSum(x, [0]), Cast(Gather(Shape(x), 0)) to=float32))',
      'x = in(N,3)\nPow(x, Unsqueeze(Cast(Mod(Gather(Shape(x), 0), 2)) to=float32, [0]))',
      'x = in(N,4)\nSlice(x, [0], Shape(x) start=0 end=1, [1])',
      'x = in(N,4)\nGather(x, Mod(Gather(Shape(x), 0), 4)) axis=1',
      'x = in(N,4)\nPad(x, Concat([0], Mod(Shape(x) start=0 end=1, [3]), [0,0]) axis=0)',
      'x = in(N,4)\nv, i = TopK(x, Min(Shape(x) start=0 end=1, [4])) axis=1\n-> 0,_',
      'x = in(N,4)\nTile(x, Concat([1], Shape(x) start=0 end=1) axis=0)',
      'x = in(N,4)\nReduceSum(Tile(x, Concat([1], Shape(x) start=0 end=1) axis=0), [1])',
      'x = in(N,4)\nCumSum(x, Mod(Gather(Shape(x), 0), 2))',
      'x = in(N,4)\nx1 = Reshape(x, Concat([-1], Shape(x) start=0 end=1) axis=0)\nReduceSum(x1, [0]) keepdims=0',
    ],
    independent: ['x = in(N,3)\nn = Cast(Gather(Shape(x), 0)) to=float32\nMul(x, Sub(Div(n, n), 0.5))'],
  },
  'values by position': {
    dependent: [
      'x = in(N,3)\nAdd(x, Cast(Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])) to=float32)',
      'x = in(N)\nr = Range(0, Gather(Shape(x), 0), 1)\nWhere(Equal(r, 0), x, Neg(x))',
      'x = in(N)\nn = Gather(Shape(x), 0)\nAdd(x, Cast(Add(n, Range(0, n, 1))) to=float32)',
      'x = in(N,3)\nr = Range(0, Gather(Shape(x), 0), 1)\nGather(k(9,3), r)',
      'x = in(N,3)\nAdd(x, CumSum(ConstantOfShape(Shape(x)) value=float32:[1], 0))',
      'x = in(N,3)\no = ConstantOfShape(Shape(x)) value=float32:[1]\nAdd(x, Slice(Concat(CumSum(o, 0), o) axis=1, [0], [3], [1]))',
      'x = in(N,4)\nAdd(x, Cast(EyeLike(x)) to=float32)',
      'x = in(N,4)\nTrilu(x)',
      'x = in(N,2)\nn = Gather(Shape(x), 0)\nGather(x, Sub(Sub(n, 1), Range(0, n, 1)))',
    ],
    independent: ['x = in(N,2)\nGather(x, Range(0, Gather(Shape(x), 0), 1))'],
  },
  'gathers of the own row': {
    independent: [
      'x = in(N,5,3)\ni = ArgMax(in(N,5)) axis=1 keepdims=0\nf = Add(Mul(Range(0, Gather(Shape(x), 0), 1), 5), i)\nGather(Reshape(x, [-1,3]), f)',
      'x = in(N,5,3)\ni = ArgMax(in(N,5)) axis=1\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(x, Concat(r, i) axis=1)',
      'x = in(N,5,3)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(x, Concat(r, in(int64 N,1 <5)) axis=1)',
      'x = in(N,5,3)\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(x, Cast(Cast(Concat(r, in(int64 N,1 <5)) axis=1) to=int32) to=int64)',
      'x = in(N,3)\ni = ArgMax(in(N,5)) axis=1 keepdims=0\nGather(x, Div(Add(Mul(Range(0, Gather(Shape(x), 0), 1), 5), i), 5))',
    ],
    dependent: [
      'x = in(N,5,3)\ni = ArgMax(in(N,6)) axis=1 keepdims=0\nf = Add(Mul(Range(0, Gather(Shape(x), 0), 1), 5), i)\nGather(Reshape(x, [-1,3]), Min(f, Sub(Mul(Gather(Shape(x), 0), 5), 1)))',
      'x = in(N,5,3)\nf = Add(Mul(Range(0, Gather(Shape(x), 0), 1), 5), in(int64 N -5..5))\nGather(Reshape(x, [-1,3]), f)',
      'x = in(N,5,3)\ni = ArgMax(in(N,5)) axis=1 keepdims=0\nf = Add(Mul(Range(0, Gather(Shape(x), 0), 1), 4), i)\nGather(Reshape(x, [-1,3]), f)',
      'x = in(N,5,3)\ni = ArgMax(in(N,5)) axis=1 keepdims=0\nGather(Reshape(x, [-1,3]), i)',
      'x = in(N,5,3)\ni = ArgMax(in(N,5)) axis=1\nr = Unsqueeze(Range(0, Gather(Shape(x), 0), 1), [1])\nGatherND(x, Concat(Mul(r, 0), i) axis=1)',
    ],
  },
  // PyTorch's exporter writes mask[rows, columns] so: the largest of the indices is asked for its shape alone.
  'indices that are broadcast': {
    independent: [
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\ns = Shape(Max(r, c))\ng = GatherND(m, Concat(Unsqueeze(Expand(r, s), [-1]), Unsqueeze(Expand(c, s), [-1])) axis=-1)\nAdd(in(N,1,2,4), g)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nAdd(in(N,1,2,4), Cast(Gather(Shape(Max(r, c)), 3)) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nAdd(in(N,1,2,4), Cast(Div(Size(Max(r, c)), Gather(Shape(m), 0))) to=float32)',
    ],
    dependent: [
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nAdd(in(N,1,2,4), Cast(Max(r, c)) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nAdd(in(N,1,2,4), Cast(Abs(Max(r, c))) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nAdd(in(N,1,2,4), Cast(Gather(Shape(Max(r, c)), 0)) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nAdd(in(N,1,2,4), Cast(Size(Max(r, c))) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\ns = Shape(Max(c, Range(0, Gather(Shape(m), 0), 1)))\nAdd(in(N,1,2,4), Cast(Gather(s, 3)) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nb = If(Greater(ReduceMax(m) keepdims=0, 5.0)) then_branch={ t = Max(r, c) -> t } else_branch={ u = Max(r, Concat(c, c) axis=3) -> u }\nAdd(in(N,1,2,4), Cast(Gather(Shape(b), 3)) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nb = If(Greater(ReduceMax(m) keepdims=0, 5.0)) then_branch={ t = Max(r, c) -> t } else_branch={ u = Concat(c, c) axis=3 -> u }\nAdd(in(N,1,2,4), Cast(Gather(Shape(b), 3)) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nb = Loop(Squeeze(ReduceMax(in(int64 N <3))), _, r) body={ (i int64[], k bool[], v int64) t = Max(Concat(v, v) axis=3, 0) -> k, t }\nAdd(in(N,1,2,4), Cast(Gather(Shape(b), 3)) to=float32)',
    ],
    same: [
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nAdd(in(N,1,2,4), Cast(Gather(Shape(Abs(Max(r, c))), 3)) to=float32)',
      'm = in(N,4)\nr = Unsqueeze(Range(0, Gather(Shape(m), 0), 1), [1,2,3])\nc = Unsqueeze(Range(0, Gather(Shape(m), 1), 1), [0,1,2])\nAdd(in(N,1,2,4), Cast(Gather(Shape(Max(Max(r, c), r)), 3)) to=float32)',
    ],
  },
  'the largest of all': {
    dependent: [
      'x = in(N,3)\nd = Mul(Log(Add(Abs(x), 0.0000000001)), 4.34)\nMax(d, Sub(ReduceMax(d) keepdims=0, 80.0))',
      'x = in(N,3)\ne = Exp(Sub(x, ReduceMax(x) keepdims=0))\nDiv(e, ReduceSum(e, [1]))',
      'x = in(N,3)\nDiv(x, Add(ReduceMax(Abs(x)) keepdims=0, 0.001))',
      'x = in(N,2,3)\nSub(x, ReduceMax(Reshape(x, [-1])) keepdims=0)',
      'x = in(N,3)\nSub(x, ReduceMax(x, Sub(Shape(x) start=1, [3])))',
    ],
    independent: [
      'x = in(N,3)\nd = Log(Add(Abs(x), 0.001))\nMax(d, Sub(ReduceMax(d, [1]), 8.0))',
      'x = in(N,3)\nDiv(x, Add(ReduceMax(Abs(x), [-1]), 0.001))',
    ],
  },
  'what leads nowhere': {
    independent: [
      'x = in(N,3)\nd = ReduceMax(x)\ny = Relu(x)\n-> y 0',
      'x = in(N,3)\nl = Softmax(x) axis=0\nt, u = TopK(l, [1]) axis=0\ny = MatMul(x, k(3,2))\n-> y 0',
      'x = in(N,3)\ny = Where(bool:1, x, ReduceMax(x, [0]))\nz = Tanh(x)\n-> z 0',
    ],
    same: ['x = in(N,3)\nAdd(x, Mul(Clip(ReduceMax(x, [0]), -1.0, 1.0), 0.0))'],
  },
  'several inputs and outputs': {
    independent: [
      'a = in(N,3)\nb = in(2,N)\ny = Add(a, Unsqueeze(ReduceMax(b, [0]) keepdims=0, [1]))\nz = Relu(b)\n-> y 0, z 1',
      'a = in(N,3)\ns = in(1)\ny = Mul(a, s)\nz = Identity(a)\n-> y 0, z 0',
      'a = in(N,3)\ns = in(int64 1..3)\nSlice(a, [0], Unsqueeze(s, [0]), [1])',
    ],
    dependent: [
      'a = in(N,3)\ny = Relu(a)\nz = Softmax(a) axis=0\n-> y 0, z 0',
      'a = in(N,3)\ny = Relu(a)\nz = ReduceMax(a)\n-> y 0, z 0',
      'a = in(N,3)\ns = in(3)\ny = Identity(s)\n-> y 0',
    ],
  },
  'local functions': {
    independent: [
      'fn local.Scale(a, b) { t = Mul(a, b); u = Relu(t) -> u }\nlocal.Scale(in(N,3), k(3))',
      'fn local.S($axis, a) { t = Softmax(a) axis=$int axis -> t }\nlocal.S(in(N,3)) axis=1',
    ],
    dependent: [
      'fn local.Scale(a, b) { t = Mul(a, b); u = Relu(t) -> u }\nlocal.Scale(in(N,3), k(2,3))',
      'fn local.S($axis, a) { t = Softmax(a) axis=$int axis -> t }\nlocal.S(in(N,3)) axis=0',
      'fn local.Centre(a) { t = ReduceMean(a) keepdims=0; u = Sub(a, t) -> u }\nlocal.Centre(in(N,3))',
    ],
  },
  'position ids and masks': {
    independent: [
      'i = in(int64 N,4 <5)\nm = in(int64 N,4 <2)\ns = Shape(i)\np = Range(0, Gather(s, 1), 1)\ne = Add(Gather(k(5,6), i), Gather(k(9,6), p))\nw = Mul(Sub(1.0, Cast(Unsqueeze(m, [1])) to=float32), -10000.0)\na = Softmax(Add(MatMul(e, Transpose(e) perm=[0,2,1]), w))\nMatMul(a, e)',
      'i = in(int64 N,4 <2)\nc = CumSum(Cast(Not(Equal(i, 1))) to=int32, 1)\nGather(k(9,3), c)',
      'm = in(int64 N,4 <2)\nx = in(N,4,3)\nw = Cast(Unsqueeze(m, [2])) to=float32\nDiv(ReduceSum(Mul(x, w), [1]) keepdims=0, Clip(ReduceSum(w, [1]) keepdims=0, 0.001, _))',
      'x = in(N,4,3)\nc = Unsqueeze(Expand(k(1,1,3), Concat(Shape(x) start=0 end=1, [1,3]) axis=0), [0])\nConcat(Squeeze(c, [0]), x) axis=1',
    ],
    dependent: ['i = in(int64 N,4 <2)\nc = CumSum(Cast(Not(Equal(i, 1))) to=int32, 0)\nGather(k(90,3), c)'],
  },
  'a state of zeros': {
    independent: [
      'x = in(4,N,3)\nh = ConstantOfShape(Concat([1], Shape(x) start=1 end=2, [2]) axis=0)\ny, z = GRU(x, k(1,6,3), k(1,6,2), _, _, h) hidden_size=2\n-> 2,1',
      'x = in(4,N,3)\nh = Expand(k(1,1,2), Concat([1], Shape(x) start=1 end=2, [2]) axis=0)\ny, z = RNN(x, k(1,2,3), k(1,2,2), _, _, h) hidden_size=2\n-> 2,1',
    ],
  },
}
