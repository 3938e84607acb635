/** Changes of a line of the proof that change no verdict, as broken-rules.ts names them, and why they do not. */
interface EquivalentChange {
  /** The line, without the spaces around it; of rules that let all through, the operator. */
  readonly line: string
  /** Kinds of changes, with the place where it is not the first of this kind in the line: `comparison turned 2`. */
  readonly changes: readonly string[]
  readonly why: string
}

/** By file, below src/row-proof. */
export const equivalentChanges: Readonly<Record<string, readonly EquivalentChange[]>> = {
  'dims.ts': [
    {
      line: "if (unknown.name.length > longestName) notFollowed('a dimension is computed in too many steps')",
      changes: ['check dropped'],
      why: 'a limit of time: limits.test.ts',
    },
    {
      line: "if (termsOf(a).length * termsOf(b).length > mostTerms) notFollowed('a dimension is computed in too many steps')",
      changes: ['check dropped'],
      why: 'a limit of time: limits.test.ts',
    },
  ],
  'rules/recurrent.ts': [
    {
      line: 'const value = op.optional(2)',
      changes: ['any value taken as data'],
      why: 'it is left out where keys and values are packed, which ONNX Runtime does on GPUs alone',
    },
    {
      line: "if (op.inputs.slice(from).some((value) => value !== null)) notFollowed('its further inputs are not followed')",
      changes: ['check dropped'],
      why: 'they share a buffer with what is kept, which onnxruntime-node does not do, so that no run says what is true',
    },
  ],
  'rules/reductions.ts': [
    {
      line: 'return tensor(type, shape, { rows: of.rows && { ...of.rows, axis: keeps ? of.rows.axis : of.rows.axis - axes.filter((axis) => axis < of.rows!.axis).length } })',
      changes: ['comparison off by one'],
      why: 'the axis of the rows is none of those that are reduced',
    },
    {
      line: "apart(of, [of.shape.length - 1], 'norms entries')",
      changes: ['check dropped'],
      why: 'gamma has a given length, so that rows there fit just one number of them',
    },
    {
      line: "if (op.version < 14 && op.outputCount > 1) return notFollowed('cannot tell whether it is in training mode')",
      changes: ['check dropped'],
      why: 'ONNX Runtime opens no model with such a node on the CPU',
    },
  ],
  'rules/ml-domain.ts': [
    {
      line: 'const scores = op.data(0)',
      changes: ['any value taken as data'],
      why: 'of ZipMap, whose scores are floats of two dimensions: nothing that counts rows comes so far',
    },
    {
      line: 'const words = op.data(0)',
      changes: ['any value taken as data'],
      why: 'of an operator of texts: nothing that counts rows comes so far',
    },
    {
      line: 'const texts = op.data(0)',
      changes: ['any value taken as data'],
      why: 'of an operator of texts: nothing that counts rows comes so far',
    },
    {
      line: "if (scores.rows === null) return { kind: 'list', items: null, byRow: false }",
      changes: ['comparison turned'],
      why: 'onnxruntime-node gives no maps, so that no run says what is true: structured-values.test.ts',
    },
    {
      line: 'return axis === 0 && scores.shape.length === 2 && isSame(outer, 1) && isSame(inner, 1)',
      changes: ['comparison turned', 'comparison turned 2'],
      why: 'onnxruntime-node gives no maps, so that no run says what is true: structured-values.test.ts',
    },
    {
      line: 'if (words.rows !== null && words.shape.length === 2 && words.rows.axis === 0)',
      changes: ['comparison turned'],
      why: 'ONNX Runtime opens no model that gives it more than one row of words',
    },
    {
      line: 'op.data(0).rows === null',
      changes: ['comparison turned', 'any value taken as data'],
      why: 'of Tokenizer, for which onnxruntime-node has no kernel',
    },
    {
      line: "op.all().some(({ rows }) => rows !== null) ? dependent('it looks at all rows') : tensor(bool, []),",
      changes: ['comparison turned'],
      why: 'of IsAllFinite, for which onnxruntime-node has no kernel',
    },
  ],
  'rules/quantised.ts': [
    {
      line: 'const parts = Array.from({ length: Math.floor((op.inputs.length - 2) / 3) }, (_, index) => op.data(2 + 3 * index))',
      changes: ['any value taken as data'],
      why: 'these numbers have 8 bits: places and numbers of rows are followed in no type that small',
    },
  ],
  'followed-values.ts': [
    {
      line: 'if (shape.length > mostDims) notFollowed(`it has ${shape.length} dimensions`)',
      changes: ['check dropped'],
      why: 'a limit of time: limits.test.ts',
    },
  ],
  'operation.ts': [
    {
      line: 'if (rows.axis !== axis) dependent(axis === -1 ? `${what} is shared by all rows, but computed from them` : `${what} has rows along dimension ${rows.axis}, where they do not stay apart`)',
      changes: ['comparison turned 2'],
      why: 'it chooses the words alone',
    },
    {
      line: 'else if (rows.axis !== own.axis) dependent(`rows lie along dimension ${rows.axis} of one input and dimension ${own.axis} of another, so each row meets all others`)',
      changes: ['check dropped'],
      why: 'the next line says the same of other axes, in other words',
    },
  ],
  'prove-rows.ts': [
    { line: 'Identity', changes: ['rule lets all through'], why: 'it does so rightly' },
    ...['OptionalGetElement', 'Optional'].map((line) => ({
      line,
      changes: ['rule lets all through'],
      why: 'an optional value is followed as what it holds',
    })),
    ...['ai.onnx.ml:Binarizer', 'ai.onnx.ml:CategoryMapper'].map((line) => ({
      line,
      changes: ['rule lets all through'],
      why: 'it makes a value of each value, and takes no type that holds places or numbers of rows',
    })),
    ...['ai.onnx.ml:ZipMap', 'com.microsoft:Tokenizer', 'com.microsoft:IsAllFinite'].map((line) => ({
      line,
      changes: ['rule lets all through'],
      why: 'onnxruntime-node has no kernel, or gives no tensor, so that no run says what is true',
    })),
    {
      line: 'com.microsoft:Inverse',
      changes: ['rule lets all through'],
      why: 'rows within its matrices end the process',
    },
    {
      line: "if (value.kind === 'list') return value.byRow && batchAxis === 0 ? null : wrong('is a sequence without an entry for each row')",
      changes: ['check dropped'],
      why: 'onnxruntime-node gives no sequences, so that no case has one as an output: structured-values.test.ts',
    },
  ],
  'rules/movement.ts': [
    {
      line: "const within = (place: Dim, least: number, most: Dim) => (typeof place === 'number' && Math.abs(place) >= 2 ** 31 - 1 ? (place < 0 ? least : most) : maximum(minimum(own(place), most), least))",
      changes: ['comparison off by one 2'],
      why: 'what is that far from 0 is not 0',
    },
    {
      line: "if (rows !== null && axes.includes(rows.axis) && (keepsRatio || op.string('coordinate_transformation_mode', 'half_pixel') === 'tf_crop_and_resize')) return notFollowed('what it does along the rows depends on other dimensions')",
      changes: ['condition weakened 2'],
      why: 'ONNX Runtime crops no dimension that it scales by 1, so that its runs refute no proof; the standard has it crop them',
    },
  ],
  'rules/indexing.ts': [
    {
      line: 'return moved(of, shape, { ...of.rows, axis: of.rows.axis < axis ? of.rows.axis : of.rows.axis - 1 + index.shape.length })',
      changes: ['comparison off by one'],
      why: 'rows along the axis itself have met in the line above',
    },
    {
      line: "for (const each of op.all()) if (each.rows !== null) dependent('how many boxes it gives for a row depends on what the row holds')",
      changes: ['check dropped'],
      why: 'what a rule does not ask for is checked to be the same for all rows behind it, and said in other words',
    },
  ],
  'rules/graphs.ts': [
    {
      line: "if (dim / length > mostElements) return notFollowed('it makes too many parts')",
      changes: ['check dropped'],
      why: 'a limit of time: limits.test.ts',
    },
  ],
}
