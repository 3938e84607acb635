import type { InferenceError } from '../../errors.ts'
import type { ConfigFields } from './config-fields.ts'

/** Errors of models for other backends: having those in a repository is no mistake. */
const ofOthers = new WeakSet<InferenceError>()

/** Marks an error as that of a model for another backend. */
export function unsupported(error: InferenceError): InferenceError {
  ofOthers.add(error)
  return error
}

/** Whether an error is that of a model for another backend. */
export function isUnsupported(error: InferenceError): boolean {
  return ofOthers.has(error)
}

const platform = 'onnxruntime_onnx'
const backend = 'onnxruntime'
/** Triton's other platforms. Any other platform is a mistake, while backends may have any name. */
const otherPlatforms = ['tensorrt_plan', 'tensorflow_graphdef', 'tensorflow_savedmodel', 'pytorch_libtorch']
const ensemble = 'ensemble'

/**
 * Checks that a model is for ONNX Runtime, or an ensemble of such models.
 *
 * @returns whether the configuration says so.
 * @throws InferenceError `ERR_MODEL_CONFIG`, {@link isUnsupported unsupported} for another backend.
 */
export function checkBackend(config: ConfigFields): boolean {
  const ownPlatform = config.string('platform') || undefined
  const ownBackend = config.string('backend') || undefined
  const isEnsemble = config.has('ensemble_scheduling')
  if (isEnsemble && ownBackend !== undefined)
    config.fail('backend', 'to be omitted beside ensemble_scheduling', ownBackend)
  if (isEnsemble && ownPlatform !== undefined && ownPlatform !== ensemble)
    config.fail('platform', `'${ensemble}', as there is ensemble_scheduling`, ownPlatform)
  if (!isEnsemble && ownPlatform === ensemble)
    config.fail('ensemble_scheduling', `to be given, as the platform is '${ensemble}'`, undefined)
  if (isEnsemble) return true
  if (ownPlatform !== undefined && ownPlatform !== platform && ownBackend === backend) {
    config.fail('platform', `'${platform}', as the backend is '${backend}'`, ownPlatform)
  }
  if (
    ownPlatform !== undefined &&
    ownPlatform !== platform &&
    ownBackend === undefined &&
    !otherPlatforms.includes(ownPlatform)
  ) {
    config.fail(
      'platform',
      `'${platform}', or one of the others that Triton knows (${[...otherPlatforms, ensemble].join(', ')})`,
      ownPlatform,
    )
  }
  if (ownBackend !== undefined && ownBackend !== backend && /onnx/i.test(ownBackend)) {
    config.fail('backend', `'${backend}' or nothing`, ownBackend, `Did you mean ${backend}?`)
  }
  const hint = 'Only ONNX models are served'
  if (ownBackend !== undefined && ownBackend !== backend)
    throw unsupported(config.error('backend', `'${backend}' or nothing`, ownBackend, hint))
  if (ownPlatform !== undefined && ownPlatform !== platform)
    throw unsupported(config.error('platform', `'${platform}' or nothing`, ownPlatform, hint))
  return ownPlatform !== undefined || ownBackend !== undefined
}
