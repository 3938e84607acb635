import { expect, it } from 'vitest'
import { resolvePipelineConfig } from '../../src/options/pipeline-config.ts'
import { PipelineGraph } from '../../src/features/pipelines/pipeline-graph.ts'
import { step } from './arithmetic.ts'

it('a pipeline keeps what it has found out of the outputs that were asked for last, and of no more than some', () => {
  const names = Array.from({ length: 8 }, (_, index) => `y${index}`)
  const graph = new PipelineGraph(
    'p',
    resolvePipelineConfig('p', {
      inputs: ['x'],
      steps: names.map((name) => step('m', 'x', name)),
      outputs: names,
    }),
  )
  const subsets = Array.from({ length: 200 }, (_, at) =>
    names.flatMap((__, index) => ((at + 1) & (1 << index) ? [index] : [])),
  )
  const plans = subsets.map((subset) => graph.planFor(subset))
  expect(plans.map((plan) => plan.steps.map(({ index }) => index))).toEqual(subsets)
  const isKept = (at: number) => graph.planFor(subsets[at]!.toReversed()) === plans[at]
  expect([isKept(199), isKept(140), isKept(0)]).toEqual([true, true, false])
})
