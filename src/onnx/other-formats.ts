const exporting = 'export the model to ONNX, and load that'

/** What people load in the place of an ONNX model: where it has which bytes, and what it is. No ONNX model has them there. */
const formats: readonly (readonly [at: number, bytes: string, what: string])[] = [
  [
    0,
    'version https://git-lfs',
    'it is a pointer of Git LFS, which has not fetched the model (git lfs pull)',
  ],
  [0, '<', 'it is a page of the web or the like: what was downloaded is not the model'],
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

/** So many bytes of the beginning of a file tell. */
export const tellingBytes = Math.max(...formats.map(([at, bytes]) => at + bytes.length))

/** What a file is instead of an ONNX model, by its first {@link tellingBytes}, and what to do; `null` where they do not tell. */
export function otherFormat(beginning: Uint8Array): string | null {
  const text = Buffer.from(beginning).toString('latin1')
  return formats.find(([at, bytes]) => text.startsWith(bytes, at))?.[2] ?? null
}
