import { type ResolvedPipeline, type ResolvedStep } from '../../options/pipeline-config.ts'
import { invalidConfig, listNames, type InferenceError } from '../../errors.ts'

/** An input or output of a step's model, and the pipeline's tensor for it. */
export interface StepPort {
  readonly name: string
  /** Index among the tensors of the graph. */
  readonly tensor: number
}

/** One step in the graph. */
export interface GraphStep {
  readonly index: number
  readonly name: string
  readonly model: string
  readonly version: number | undefined
  readonly inputs: readonly StepPort[]
  readonly outputs: readonly StepPort[]
  readonly when: ResolvedStep['when']
  readonly fanOut: ResolvedStep['fanOut']
  /** The tensors that it waits for, each once: its inputs, and those that its `when` reads. */
  readonly awaits: readonly number[]
}

/** A tensor of the graph. */
interface GraphTensor {
  readonly name: string
  /** The step that makes it; -1 for an input of the pipeline. */
  readonly madeBy: number
  /** Steps that wait for it. */
  readonly awaitedBy: readonly number[]
}

/** The steps needed for some of the outputs. */
export interface StepPlan {
  readonly steps: readonly GraphStep[]
  /** Steps that depend on the request only. */
  readonly first: readonly GraphStep[]
  /** By step: how many tensors it waits for; -1 if it is not needed. */
  readonly missing: readonly number[]
  /** By step: initial times, when none has begun. */
  readonly times: readonly number[]
  /** By step: initial entries, when none runs. */
  readonly none: readonly null[]
}

/** Plans kept, one per set of wanted outputs. The number of such sets is exponential. */
const mostPlans = 64

/**
 * The steps of a pipeline and the tensors between them, checked to be complete: no tensor is missing, unused
 * or made twice, and there are no cycles.
 */
export class PipelineGraph {
  readonly name: string
  readonly tensors: readonly GraphTensor[]
  readonly steps: readonly GraphStep[]
  /** The tensors of its inputs, in order; they come first. */
  readonly inputs: readonly number[]
  /** The tensors of its outputs, in order. */
  readonly outputs: readonly number[]
  readonly #plans = new Map<string, StepPlan>()
  readonly #all: StepPlan

  /**
   * @throws InferenceError `ERR_MODEL_CONFIG` with the step and its field, what was expected and what was
   * received.
   */
  constructor(name: string, config: ResolvedPipeline) {
    this.name = name
    const tensors = collectTensors(name, config)
    const numberOf = new Map(tensors.map((tensor, index) => [tensor.name, index]))
    const find = (path: string, tensor: string, isAnswer = false): number => {
      const found = numberOf.get(tensor)
      if (found !== undefined) return found
      const fitting = tensors.filter(({ madeBy }) => !isAnswer || madeBy !== -1).map((each) => each.name)
      throw invalidConfig(
        name,
        path,
        `${isAnswer ? '' : 'an input of the pipeline or '}an output of a step (${listNames(fitting)})`,
        tensor,
      )
    }
    this.steps = config.steps.map((step, index): GraphStep => {
      const ports = (option: 'inputs' | 'outputs') =>
        step[option].map(([port, tensor]) => ({
          name: port,
          tensor: find(`steps[${index}].${option}.${port}`, tensor),
        }))
      const inputs = ports('inputs')
      const needs = step.needs.map((tensor, at) => find(`steps[${index}].needs[${at}]`, tensor))
      const awaits = [...new Set([...inputs.map(({ tensor }) => tensor), ...needs])]
      for (const tensor of awaits) tensors[tensor]!.awaitedBy.push(index)
      return {
        index,
        name: step.name,
        model: step.model,
        version: step.version,
        inputs,
        outputs: ports('outputs'),
        when: step.when,
        fanOut: step.fanOut,
        awaits,
      }
    })
    this.tensors = tensors
    this.inputs = config.inputs.map((_, index) => index)
    this.outputs = config.outputs.map((output, index) => find(`outputs[${index}]`, output.name, true))
    this.#checkOrder()
    this.#checkUse()
    this.#all = this.#plan(this.outputs)
  }

  /**
   * The plan for a set of outputs.
   *
   * @param outputs indices of the pipeline's outputs; `null` for all.
   */
  planFor(outputs: readonly number[] | null): StepPlan {
    if (outputs === null || outputs.length === this.outputs.length) return this.#all
    const key = [...outputs].sort((a, b) => a - b).join()
    let plan = this.#plans.get(key)
    if (plan !== undefined) return plan
    if (this.#plans.size === mostPlans) this.#plans.delete(this.#plans.keys().next().value!)
    this.#plans.set(key, (plan = this.#plan(outputs.map((output) => this.outputs[output]!))))
    return plan
  }

  #plan(tensors: readonly number[]): StepPlan {
    const missing = this.steps.map(() => -1)
    const needed = [...tensors]
    for (const tensor of needed) {
      const { madeBy } = this.tensors[tensor]!
      if (madeBy === -1 || missing[madeBy] !== -1) continue
      missing[madeBy] = this.#waitsFor(madeBy).length
      needed.push(...this.steps[madeBy]!.awaits)
    }
    const steps = this.steps.filter(({ index }) => missing[index] !== -1)
    return {
      steps,
      first: steps.filter(({ index }) => missing[index] === 0),
      missing,
      times: missing.map(() => NaN),
      none: missing.map(() => null),
    }
  }

  /** The steps that a step depends on, once per tensor. */
  #waitsFor(step: number): number[] {
    return this.steps[step]!.awaits.map((tensor) => this.tensors[tensor]!.madeBy).filter(
      (madeBy) => madeBy !== -1,
    )
  }

  /** Checks that every step can run: steps in a cycle never do. */
  #checkOrder(): void {
    const missing = this.steps.map(({ index }) => this.#waitsFor(index).length)
    const order = this.steps.flatMap(({ index }) => (missing[index] === 0 ? [index] : []))
    for (const step of order) {
      for (const { tensor } of this.steps[step]!.outputs) {
        for (const next of this.tensors[tensor]!.awaitedBy) if (--missing[next]! === 0) order.push(next)
      }
    }
    const stuck = missing.findIndex((count) => count > 0)
    if (stuck !== -1) throw this.#circle(stuck, (step) => missing[step]! > 0)
  }

  /** Each stuck step waits for another stuck one. */
  #circle(stuck: number, isStuck: (step: number) => boolean): InferenceError {
    const path: number[] = []
    let step = stuck
    for (; !path.includes(step); step = this.#waitsFor(step).find(isStuck)!) path.push(step)
    const circle = [...path.slice(path.indexOf(step)), step].map((each) => `'${this.steps[each]!.name}'`)
    return this.#wrong(
      `steps[${step}].inputs`,
      'tensors that do not depend on outputs of the step itself',
      `a circle: ${circle.join(' waits for ')}`,
    )
  }

  #wrong(option: string, expected: string, received: unknown): InferenceError {
    return invalidConfig(this.name, option, expected, received)
  }

  /** Checks that every input and tensor is used. */
  #checkUse(): void {
    const isAnswered = (tensor: number) => this.outputs.includes(tensor)
    for (const [tensor, { name, madeBy, awaitedBy }] of this.tensors.entries()) {
      if (awaitedBy.length > 0) {
        if (madeBy === -1 && isAnswered(tensor))
          throw this.#wrong(
            `outputs[${this.outputs.indexOf(tensor)}]`,
            'an output of a step',
            `'${name}', an input of the pipeline`,
          )
        continue
      }
      if (madeBy === -1) throw this.#wrong(`inputs[${tensor}]`, 'an input that a step takes', name)
      if (isAnswered(tensor)) continue
      const port = this.steps[madeBy]!.outputs.find((each) => each.tensor === tensor)!
      throw this.#wrong(
        `steps[${madeBy}].outputs.${port.name}`,
        'a tensor that a step takes or the pipeline answers with, or no mention of this output',
        name,
      )
    }
    const { missing } = this.#plan(this.outputs)
    const idle = missing.indexOf(-1)
    if (idle !== -1)
      throw this.#wrong(
        `steps[${idle}]`,
        'a step that an output of the pipeline depends on',
        this.steps[idle]!.name,
      )
  }
}

function collectTensors(
  name: string,
  { inputs, steps }: ResolvedPipeline,
): (GraphTensor & { awaitedBy: number[] })[] {
  const tensors: (GraphTensor & { awaitedBy: number[] })[] = inputs.map((input) => ({
    name: input.name,
    madeBy: -1,
    awaitedBy: [],
  }))
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]))
  for (const [index, step] of steps.entries()) {
    for (const [output, tensor] of step.outputs) {
      const same = byName.get(tensor)
      if (same !== undefined) {
        const by =
          same.madeBy === -1 ? 'is an input of the pipeline' : `is made by step '${steps[same.madeBy]!.name}'`
        throw invalidConfig(
          name,
          `steps[${index}].outputs.${output}`,
          'a name of no other tensor',
          `'${tensor}', which ${by}`,
        )
      }
      const made = { name: tensor, madeBy: index, awaitedBy: [] }
      byName.set(tensor, made)
      tensors.push(made)
    }
  }
  return tensors
}
