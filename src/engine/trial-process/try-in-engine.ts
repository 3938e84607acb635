// A program: tries a model in an engine of its own, with any executor and execution provider.
import { asItIs } from '../../models/compiled-models/model-preparation.ts'
import type { TrialTask } from '../../models/compiled-models/model-trial.ts'
import { resolveEngineOptions } from '../../options/engine-options.ts'
import { EngineResources } from '../engine-resources.ts'
import type { ServedModel } from '../../features/served-model.ts'
import { Loaded } from '../loaded.ts'
import type { LoadedModel } from '../loaded-model.ts'
import { tryModels } from './trial-steps.ts'

let resources: EngineResources | null = null

function resourcesFor({ engine: { executor, providers, workers } }: TrialTask): EngineResources {
  const options = resolveEngineOptions({ cache: false, verify: 'none', executor, workers })
  return (resources ??= new EngineResources({ ...options, providers, inline: null }))
}

tryModels(async (task, config, how) => {
  const prepared = {
    ...asItIs(''),
    opening: (...given: Parameters<typeof how>) => {
      const [model, options] = how(...given)
      return { model, options }
    },
  }
  const unlearnt = { ...config, checkRows: false, warmup: { ...config.warmup, madeUp: null } }
  const loaded = new Loaded(task.model, unlearnt, resourcesFor(task), { prepared, changed: () => {} })
  await loaded.load()
  const { session } = loaded.opened as LoadedModel
  const { joining } = (loaded.served as ServedModel).scheduler
  return {
    values: joining.shaped.served, // as the model has them, whatever shapes requests have
    runSample: (feeds) => session.runSample(feeds, true),
    close: () => loaded.close(true),
  }
})
