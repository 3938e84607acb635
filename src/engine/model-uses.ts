import { InferenceError, listNames } from '../errors.ts'
import type { ModelVersionStatus } from './model-state.ts'

/** One step's use of a model; `version` is `undefined` for whichever serves. */
interface Use {
  readonly pipeline: string
  readonly model: string
  readonly version: number | undefined
}

/** A version of a model, and all that its name has. */
interface UsedVersion {
  readonly name: string
  readonly version: number
  readonly versions: readonly ModelVersionStatus[]
}

/** Which pipelines have which models as steps. What is used may be replaced, and not be unloaded. */
export class ModelUses {
  /** By what holds them; a pipeline that is replaced and its successor both do for a while. */
  readonly #uses = new Map<object, readonly Use[]>()
  readonly #onRelease: (() => void)[] = []

  /** Notes what a pipeline uses, until {@link release}. */
  hold(
    holder: object,
    pipeline: string,
    steps: readonly { readonly model: string; readonly version: number | undefined }[],
  ): void {
    this.#uses.set(
      holder,
      steps.map(({ model, version }) => ({ pipeline, model, version })),
    )
  }

  release(holder: object): void {
    if (this.#uses.delete(holder)) for (const look of this.#onRelease.splice(0)) look()
  }

  /** How a pipeline is a step of itself, by names from it back to it; `null` where it is not. */
  circle(pipeline: string): string[] | null {
    const all = this.#all()
    const seen = new Set<string>()
    const visit = (name: string, path: readonly string[]): string[] | null => {
      if (path.length > 0 && name === pipeline) return [...path, name]
      if (seen.has(name)) return null
      seen.add(name)
      for (const use of all) {
        const found = use.pipeline === name ? visit(use.model, [...path, name]) : null
        if (found !== null) return found
      }
      return null
    }
    return visit(pipeline, [])
  }

  /** Names of the pipelines that have a model as a step. */
  pipelinesOf(model: string): string[] {
    return [...new Set(this.#all().flatMap((use) => (use.model === model ? [use.pipeline] : [])))]
  }

  /**
   * Why a name, or one version of it, cannot be unloaded; `null` where it can.
   *
   * @param version that would be unloaded; `undefined` for all of them.
   * @param isLast whether no other version would be left to serve.
   */
  refusal(model: string, version: number | undefined, isLast: boolean): InferenceError | null {
    const touched = this.#all().filter(
      (use) =>
        use.model === model &&
        (version === undefined || use.version === version || (use.version === undefined && isLast)),
    )
    if (touched.length === 0) return null
    const pipelines = [...new Set(touched.map(({ pipeline }) => pipeline))]
    const what = version === undefined ? `Model '${model}'` : `Version ${version} of model '${model}'`
    const hint = 'Unload that first, or load another model in its place'
    const message = `${what} cannot be unloaded: it is a step of ${pipelines.length === 1 ? 'pipeline' : 'the pipelines'} ${listNames(pipelines)}. ${hint}.`
    return new InferenceError('ERR_MODEL_IN_USE', message, {
      model,
      expected: 'a model that is no step of a pipeline',
      received: pipelines,
    })
  }

  /** As {@link refusal}, of a version. */
  refusalOf({ name, version, versions }: UsedVersion): InferenceError | null {
    return this.refusal(
      name,
      version,
      !versions.some((other) => other.version !== version && other.state === 'ready'),
    )
  }

  /** Resolves when a version can be unloaded. */
  async whenFree(used: UsedVersion): Promise<void> {
    while (this.refusalOf(used) !== null) await new Promise<void>((resolve) => this.#onRelease.push(resolve))
  }

  #all(): Use[] {
    return [...this.#uses.values()].flat()
  }
}
