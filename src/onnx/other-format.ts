const exporting = 'export the model to ONNX, and load that'

/**
 * Files that users load by mistake: the offset of typical bytes, the bytes, and the format. No ONNX model has
 * those bytes there.
 */
const formats: readonly (readonly [at: number, bytes: string, what: string])[] = [
  [0, 'version https://git-lfs', 'it is a pointer of Git LFS: fetch the model (git lfs pull)'],
  [0, '<', 'it is a web page or similar: the download is not the model'],
  [0, '\x1f\x8b', 'it is compressed by gzip: unpack it'],
  [
    0,
    'PK\x03\x04',
    `it is an archive, as of PyTorch, Keras or zip: unpack the .onnx file that is in it, or ${exporting} (torch.onnx.export, tf2onnx)`,
  ],
  ...['\x02', '\x03', '\x04', '\x05'].map(
    (version) =>
      [
        0,
        `\x80${version}`,
        `it is a pickle, as of PyTorch or scikit-learn: ${exporting} (torch.onnx.export, skl2onnx)`,
      ] as const,
  ),
  [0, '\x89HDF', `it is a file of HDF5, as of Keras: ${exporting} (tf2onnx)`],
  [1, '\0\0\0TFL3', `it is a model of TensorFlow Lite: ${exporting} (tf2onnx)`],
  [
    4,
    '\0\0\0\0{"',
    `it has weights in the format safetensors, and no graph: ${exporting} (optimum-cli export onnx)`,
  ],
  [0, 'GGUF', `it is a model of llama.cpp (GGUF): ${exporting}`],
]

/** How many of a file's first bytes are needed to recognise these formats. */
export const tellingBytes = Math.max(...formats.map(([at, bytes]) => at + bytes.length))

/**
 * The format of a file that is no ONNX model, by its first {@link tellingBytes}, and what to do; `null` if it
 * is not recognised.
 */
export function otherFormat(beginning: Uint8Array): string | null {
  const text = Buffer.from(beginning).toString('latin1')
  return formats.find(([at, bytes]) => text.startsWith(bytes, at))?.[2] ?? null
}
