import { relative, resolve } from 'node:path'
import { InferenceError, type TensorConfig } from '../index.ts'
import { notStackable } from '../metadata.ts'
import type { RepositoryEntry } from '../triton-repository/model-folder.ts'
import { readRepository } from '../triton-repository/read-repository.ts'
import { readValues } from './model-file.ts'
import { repositorySource, type NamedSubject } from './signature-module.ts'
import type { SignatureValue } from './signature.ts'

/** The types of a repository's models, and why some are left out. */
export interface RepositoryTypes {
  /** `null` where there is no model to write of. */
  readonly source: string | null
  readonly failures: readonly InferenceError[]
}

/** Reads the models of a Triton model repository, and their configurations; of several versions the newest that is served. */
export async function repositoryTypes(folder: string): Promise<RepositoryTypes> {
  const { entries, failures } = await readRepository(folder)
  const errors = [...failures]
  const subjects: NamedSubject[] = []
  for (const entry of entries) {
    try {
      subjects.push(await subjectOf(entry, folder))
    } catch (error) {
      if (!(error instanceof InferenceError)) throw error
      errors.push(error)
    }
  }
  return { source: subjects.length === 0 ? null : repositorySource(subjects), failures: errors }
}

async function subjectOf({ name, configs }: RepositoryEntry, folder: string): Promise<NamedSubject> {
  const { inputs, outputs, ...config } = configs[0]! // the newest
  const path = String(config.path)
  const values = await readValues(path)
  const maxBatchSize = config.maxBatchSize ?? values.maxBatchSize
  const batched = maxBatchSize === null ? notStackable(values) === null : maxBatchSize > 0
  return {
    model: name,
    file: relative(resolve(folder), path),
    inputs: values.inputs.map((value) => configured({ ...value, optional: config.optionalInputs?.includes(value.name) ?? false }, inputs, batched)),
    outputs: values.outputs.filter(({ name: output }) => outputs?.some(({ name: listed }) => listed === output) ?? true)
      .map((value) => configured(value, outputs, batched)),
    maxBatchSize,
    byRow: batched,
  }
}

/** With the dimensions that requests have, and those that the model leaves open and its configuration does not. */
function configured(value: SignatureValue, tensors: readonly TensorConfig[] | undefined, batched: boolean): SignatureValue {
  const { dims, reshape } = tensors?.find(({ name }) => name === value.name) ?? {}
  const given = dims === undefined ? [] : batched ? [-1, ...dims] : dims
  if (reshape !== undefined) return { ...value, shape: given.map((dim, axis) => (dim >= 0 ? dim : axis === 0 && batched ? value.shape[0]! : '')) }
  if (given.length !== value.shape.length) return value // wrong: a load tells
  return { ...value, configuredShape: value.shape.map((dim, axis) => (typeof dim === 'string' && given[axis]! >= 0 ? given[axis]! : dim)) }
}
