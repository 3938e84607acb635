import { describe, expect, it } from 'vitest'
import { perf } from '../../src/cli/perf.ts'
import { simulate } from '../../src/cli/simulate.ts'
import { tune } from '../../src/cli/tune.ts'

const of = (command: typeof perf) => command.options.flatMap(({ short, long }) => [short, long])

describe('what means the same to several commands', () => {
  it('has one name and one unit in zerohop simulate and zerohop perf', () => {
    const shared = [
      '--instances',
      '--max-batch-size',
      '--preferred-batch-sizes',
      '--max-queue-delay-us',
      '--latency-target-ms',
      '-b',
      '-m',
      '--request-count',
      '--seed',
      '--replay',
      '--replay-model',
      '--speed',
    ]
    expect(shared.filter((name) => !of(simulate).includes(name) || !of(perf).includes(name))).toEqual([])
  })

  it('has them in zerohop tune, which takes several values, too', () => {
    const shared = [
      '--instances',
      '--intra-op-threads',
      '--max-batch-sizes',
      '--max-queue-delays-us',
      '-b',
      '--shape',
      '--input-data',
      '--provider',
      '--plugin',
      '--model-config',
      '--engine-options',
    ]
    const ofPerf = of(perf).map((name) =>
      name?.replace(/-size$/, '-sizes').replace(/-delay-us$/, '-delays-us'),
    )
    expect(shared.filter((name) => !of(tune).includes(name) || !ofPerf.includes(name))).toEqual([])
    expect(of(simulate)).toContain('--request-rate')
    expect(of(tune)).toContain('--request-rate')
  })
})
