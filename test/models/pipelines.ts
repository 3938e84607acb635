import { dirname } from 'node:path'
import { modelPath } from './cache.ts'
import { EncoderBuilder, tiny } from './encoder.ts'
import type { EncoderSize } from './encoder.ts'
import { bertTokenizer, vocabulary } from './tokenizer.ts'

/** What a pipeline of transformers.js is loaded from. */
export interface PipelineFolder {
  /** In which models lie, `env.localModelPath`. */
  readonly root: string
  /** The name of the model there. */
  readonly name: string
}

/** What the encoder of a text is followed by. */
export type TextTask = 'feature-extraction' | 'text-classification' | 'token-classification'

const labels = ['quiet', 'loud', 'odd']
const longestText = 512
/** Added to the scores of what is only filled up: no share is left to it. */
const unseen = -1e9

/** A BERT with random weights: tokenizer, configuration and graph, as the exports that transformers.js runs have them. */
export function bert(task: TextTask, size: EncoderSize = tiny, longest = longestText): PipelineFolder {
  const name = `bert-${task}-${size.hidden}-${longest}`
  return folder(name, () => bertGraph(task, size, longest), {
    'config.json': {
      ...sizeOf(size),
      model_type: 'bert',
      vocab_size: vocabulary.length,
      pad_token_id: 0,
      max_position_embeddings: longest,
      ...namedLabels,
    },
    ...bertTokenizer(longest, vocabulary),
  })
}

/** A vision transformer with random weights, of images of 32 x 32. */
export function vit(size: EncoderSize = tiny): PipelineFolder {
  const half = [0.5, 0.5, 0.5]
  return folder(`vit-${size.hidden}`, () => vitGraph(size), {
    'config.json': {
      ...sizeOf(size),
      model_type: 'vit',
      image_size: 32,
      patch_size: 8,
      num_channels: 3,
      ...namedLabels,
    },
    'preprocessor_config.json': {
      image_processor_type: 'ViTImageProcessor', do_resize: true, size: { height: 32, width: 32 }, resample: 2,
      do_rescale: true, rescale_factor: 1 / 255, do_normalize: true, image_mean: half, image_std: half,
    }, // prettier-ignore
  })
}

const namedLabels = {
  id2label: Object.fromEntries(labels.entries()),
  label2id: Object.fromEntries(labels.map((label, id) => [label, id])),
}

const sizeOf = ({ hidden, heads, layers }: EncoderSize) => ({
  hidden_size: hidden,
  num_attention_heads: heads,
  num_hidden_layers: layers,
  intermediate_size: 4 * hidden,
})

function folder(
  name: string,
  graph: () => Uint8Array,
  files: Readonly<Record<string, object>>,
): PipelineFolder {
  const inFolder = (file: string) => `pipelines/${name}/${file}`
  const texts = Object.entries(files).map(
    ([file, content]) => [inFolder(file), Buffer.from(JSON.stringify(content))] as const,
  )
  const path = modelPath(inFolder('onnx/model'), () => ({ model: graph(), files: new Map(texts) }))
  return { root: dirname(dirname(dirname(path))), name }
}

function bertGraph(task: TextTask, size: EncoderSize, longest: number): Uint8Array {
  const build = new EncoderBuilder(`bert-${task}`, size)
  const { model } = build
  const { hidden } = size
  for (const input of ['input_ids', 'attention_mask', 'token_type_ids'])
    model.input(input, 'int64', ['batch_size', 'sequence_length'])
  const words = build.op('Gather', [build.weights([vocabulary.length, hidden], 1), 'input_ids'])
  const kinds = build.op('Gather', [build.weights([2, hidden], 1), 'token_type_ids'])
  const length = build.op('Gather', [build.op('Shape', ['input_ids']), build.whole(1)])
  const scalar = (value: number) => build.op('Squeeze', [build.whole(value)])
  const places = build.op('Range', [scalar(0), build.op('Squeeze', [length]), scalar(1)])
  const placed = build.op('Gather', [build.weights([longest, hidden], 1), places])
  const embedded = build.normalised(build.op('Add', [build.op('Add', [words, kinds]), placed]))
  const hiddenPart = build.op('Sub', [build.floats(1), build.op('Cast', ['attention_mask'], { to: 1 })])
  const bias = build.op('Mul', [build.op('Unsqueeze', [hiddenPart, build.whole(1, 2)]), build.floats(unseen)])
  if (task === 'feature-extraction') {
    build.layers(embedded, bias, 'last_hidden_state')
    return model.output('last_hidden_state', 'float32', ['batch_size', 'sequence_length', hidden]).build()
  }
  const states = build.layers(embedded, bias)
  if (task === 'token-classification') {
    build.dense(states, hidden, labels.length, 'logits')
    return model.output('logits', 'float32', ['batch_size', 'sequence_length', labels.length]).build()
  }
  const first = build.op('Squeeze', [
    build.op('Gather', [states, build.whole(0)], { axis: 1 }),
    build.whole(1),
  ])
  build.dense(build.op('Tanh', [build.dense(first, hidden, hidden)]), hidden, labels.length, 'logits')
  return model.output('logits', 'float32', ['batch_size', labels.length]).build()
}

function vitGraph(size: EncoderSize): Uint8Array {
  const build = new EncoderBuilder('vit', size)
  const { model } = build
  const { hidden } = size
  model
    .input('pixel_values', 'float32', ['batch_size', 'num_channels', 'height', 'width'])
    .output('logits', 'float32', ['batch_size', labels.length])
  const patches = build.op('Conv', ['pixel_values', build.weights([hidden, 3, 8, 8], 0.1)], {
    kernel_shape: [8, 8],
    strides: [8, 8],
  })
  const row = build.op('Transpose', [build.op('Reshape', [patches, build.whole(0, hidden, -1)])], {
    perm: [0, 2, 1],
  })
  const states = build.layers(build.normalised(build.op('Add', [row, build.weights([16, hidden], 1)])), null)
  build.dense(build.op('ReduceMean', [states], { axes: [1], keepdims: 0 }), hidden, labels.length, 'logits')
  return model.build()
}
