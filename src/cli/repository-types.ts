import { relative, resolve } from 'node:path'
import { resolveConfig } from '../options/model-config.ts'
import { namedInputs } from '../options/session-options.ts'
import { InferenceError } from '../errors.ts'
import type { ModelConfig, PipelineConfig, PipelineInput, PipelineOutput } from '../index.ts'
import { notStackable } from '../tensor/metadata.ts'
import { shapeTensors } from '../request/shaped-tensors.ts'
import { defined } from '../features/triton-repository/config-fields.ts'
import type { RepositoryEntry } from '../features/triton-repository/model-folder.ts'
import { readRepository } from '../features/triton-repository/load-repository.ts'
import { readValues } from './model-file.ts'
import { repositorySource, type NamedSubject } from './signature-module.ts'

/** The types of a repository's models, and why some are left out. */
export interface RepositoryTypes {
  /** `null` if there are no models. */
  readonly source: string | null
  /** Errors of models for other backends. */
  readonly unsupported: readonly InferenceError[]
  readonly failures: readonly InferenceError[]
}

/**
 * Reads the models of a Triton model repository and their configurations. Of several versions, the newest
 * that is served counts.
 */
export async function repositoryTypes(folder: string): Promise<RepositoryTypes> {
  const { entries, unsupported, failures } = await readRepository(folder)
  const errors = [...failures]
  const subjects: NamedSubject[] = []
  for (const entry of entries) {
    try {
      subjects.push(await subjectOf(entry, folder))
    } catch (error) {
      if (!(error instanceof InferenceError)) throw error
      errors.push(entry.atField(error))
    }
  }
  return { source: subjects.length === 0 ? null : repositorySource(subjects), unsupported, failures: errors }
}

/** A model as its requests see it. */
async function subjectOf({ name, configs }: RepositoryEntry, folder: string): Promise<NamedSubject> {
  if ('steps' in configs[0]!) return ensembleSubject(name, configs[0])
  const {
    path,
    maxBatchSize: most,
    inputs,
    outputs,
    sequence,
    optionalInputs = [],
  } = configs[0] as ModelConfig & { path: string }
  const config = resolveConfig(
    name,
    defined({ path, maxBatchSize: most, inputs, outputs, sequence, optionalInputs }),
  )
  const values = await readValues(path, namedInputs(config))
  const { shown } = shapeTensors(name, config, { ...values, unservableOutputs: [] })
  const maxBatchSize = config.maxBatchSize ?? values.maxBatchSize
  const { controls = [], state: states = [] } = config.sequence ?? {}
  // Inputs that requests of a sequence omit, as the engine fills them.
  const ownInputs = new Set([
    ...optionalInputs,
    ...controls.map(({ input }) => input),
    ...states.map(({ input }) => input),
  ])
  const images = new Set(inputs?.flatMap((input) => (input.image === undefined ? [] : [input.name])))
  const ownOutputs = new Set(states.map(({ output }) => output))
  return {
    model: name,
    file: relative(resolve(folder), path),
    inputs: shown.inputs.map((value) => ({
      ...value,
      optional: ownInputs.has(value.name),
      image: images.has(value.name),
    })),
    outputs: shown.outputs.map((value) => ({ ...value, optional: ownOutputs.has(value.name) })),
    maxBatchSize,
    byRow: maxBatchSize === null ? notStackable(values) === null : maxBatchSize > 0,
  }
}

/** An ensemble; its configuration is complete. */
function ensembleSubject(model: string, { inputs, outputs, maxBatchSize = 0 }: PipelineConfig): NamedSubject {
  const byRow = maxBatchSize > 0
  const valueOf = ({ name, type, dims }: PipelineInput | PipelineOutput) => {
    const shape = dims!.map((dim) => (dim === -1 ? '' : dim))
    return { name, type: type!, shape: byRow ? ['', ...shape] : shape }
  }
  const asked = (inputs as readonly PipelineInput[]).map((input) => ({
    ...valueOf(input),
    optional: input.optional ?? false,
  }))
  // If an input is omitted, the steps that need it are skipped, and their outputs are missing.
  const optional = asked.some((input) => input.optional)
  const given = (outputs as readonly PipelineOutput[]).map((output) => ({ ...valueOf(output), optional }))
  return { model, file: `${model}/config.pbtxt`, inputs: asked, outputs: given, maxBatchSize, byRow }
}
