import { join, resolve } from 'node:path'
import {
  invalidArgument,
  NotReadable,
  readRegularFile,
  readRegularText,
  elementCount,
  storageLength,
} from 'zerohop/internals'
import type { TensorData } from 'zerohop'
import { knownDims, type InputShape } from './input-shapes.ts'
import { mostGeneratedBytes } from './generated-data.ts'
import { fromBytes } from './json-tensor.ts'
import type { RowTensor } from './row-tensors.ts'
import type { Stream } from './step.ts'

/**
 * Reads a folder with a file for each input, under its name: the bytes of one row, or of strings the lines of a text.
 *
 * @throws InferenceError `ERR_INVALID_ARG`, and what reading the files throws.
 */
export async function readFolderInput(folder: string, inputs: readonly InputShape[]): Promise<Stream> {
  const tensors = new Map<string, RowTensor>()
  for (const input of inputs)
    tensors.set(input.name, await readInput(resolve(join(folder, input.name)), input))
  return [{ inputs: tensors, outputs: new Map() }]
}

async function readInput(path: string, input: InputShape): Promise<RowTensor> {
  const dims = knownDims(input)
  const data = await dataOf(path, input)
  const expected = storageLength(input.type, elementCount(dims))
  if (data.length !== expected)
    throw invalidArgument(
      path,
      `${expected} ${input.type === 'string' ? 'lines' : `elements of ${input.type}`}, as the shape is [${dims.join(', ')}]`,
      String(data.length),
    )
  return { dims, data }
}

async function dataOf(path: string, { type }: InputShape): Promise<TensorData | string[]> {
  try {
    return type === 'string'
      ? lines(await readRegularText(path))
      : fromBytes(type, await readRegularFile(path, mostGeneratedBytes), path)
  } catch (error) {
    if (error instanceof NotReadable)
      throw invalidArgument(path, 'a file with one row', error.message, { cause: error })
    throw error
  }
}

function lines(text: string): string[] {
  return text.replace(/\r?\n$/, '').split(/\r?\n/)
}
