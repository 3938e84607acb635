import type { ResolvedConfig } from '../../options/resolve-model-config.ts'
import { isPipeline, type ResolvedPipeline } from '../../options/resolve-pipeline-config.ts'
import type { ValueMetadata } from '../../tensor/metadata.ts'
import type { Model } from '../../model.ts'
import { datatypeOf } from './datatypes.ts'

/** A model's metadata in the protocol's words. */
export function modelMetadata(model: Model, config: ResolvedConfig | ResolvedPipeline): object {
  const { name, inputs, outputs } = model.metadata
  const described = (values: readonly ValueMetadata[]) =>
    values.map((value) => ({
      name: value.name,
      datatype: datatypeOf(value.type),
      shape: dimsOf(value.shape),
    }))
  return {
    name,
    versions: model.versions.map(({ version }) => String(version)),
    platform: platformOf(config),
    inputs: described(inputs),
    outputs: described(outputs),
  }
}

/** Triton's name of what serves a model. */
export function platformOf(config: ResolvedConfig | ResolvedPipeline): string {
  return isPipeline(config) ? 'ensemble' : 'onnxruntime_onnx'
}

/** Dimensions that are not fixed are -1. */
export function dimsOf(shape: ValueMetadata['shape']): number[] {
  return shape.map((dim) => (typeof dim === 'number' ? dim : -1))
}
