import { readFileSync } from 'node:fs'
import Module from 'node:module'
import { AggregatorRegistry, Counter, Registry } from 'prom-client'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { EngineStatistics, InferenceEngine, Model } from '../../src/index.ts'
import { batchSizeSamples } from '../../src/adapters/prometheus/metric-families.ts'
import {
  prometheusMetrics,
  type PrometheusOptions,
} from '../../src/adapters/prometheus/prometheus-metrics.ts'
import { fixture } from '../functions/load-function.ts'
import * as small from '../models/small.ts'
import { loadNumber, one, step } from '../pipelines/arithmetic.ts'
import { deferred } from '../support/deferred.ts'
import { ownEngine } from '../support/open.ts'
import { complaints, exposed, type Exposed } from './exposition.ts'

const row = { x: new Float32Array(4) }

/** An engine that has served a model with a cache, and a pipeline with a function, and failed now and then. */
async function served(): Promise<{ engine: InferenceEngine; model: Model }> {
  const engine = ownEngine({ cpuWorkers: 1 })
  const model = await engine.load('pairs', {
    path: small.identity('float32'),
    version: 3,
    maxBatchSize: 4,
    responseCache: true,
  })
  await loadNumber(engine, 'twice', (x) => 2 * x)
  const line = await engine.loadPipeline('line', {
    inputs: ['x'],
    steps: [step('twice', 'x', 'y')],
    outputs: ['y'],
  })
  for (let at = 0; at < 5; at++) await model.infer({ x: Float32Array.of(at % 3, 0, 0, 0) })
  await Promise.all([...Array(5)].map((_, at) => model.infer({ x: Float32Array.of(10 + at, 0, 0, 0) })))
  await line.infer({ x: one(1) })
  await model.infer({ x: new Float32Array(3) }).catch(() => {})
  await model.infer(row, { signal: AbortSignal.abort('no') }).catch(() => {})
  return { engine, model }
}

async function scrape(registry: Registry): Promise<Map<string, Exposed>> {
  return exposed(await registry.metrics())
}

const seriesOf = (metrics: Map<string, Exposed>) =>
  [...metrics.values()].flatMap(({ samples }) => [...samples.keys()])

describe('the metrics of an engine', () => {
  it("have Triton's values under Triton's names", async () => {
    const { engine, model } = await served()
    const register = new Registry()
    prometheusMetrics(engine, { register })
    const metrics = await scrape(register)
    const value = (name: string, more = '') =>
      metrics.get(name)!.samples.get(`${name}{model="pairs",version="3"${more}}`)
    const { inferenceStats, inferenceCount, executionCount, loadMs } = model.stats()
    expect(value('nv_inference_request_success')).toBe(10)
    expect([value('nv_inference_count'), value('nv_inference_exec_count')]).toEqual([
      inferenceCount,
      executionCount,
    ])
    expect(
      ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER'].map((reason) =>
        value('nv_inference_request_failure', `,reason="${reason}"`),
      ),
    ).toEqual([0, 1, 0, 1])
    expect(value('nv_inference_request_duration_us')).toBe(inferenceStats.success.ns / 1000)
    expect(value('nv_inference_queue_duration_us')).toBe(inferenceStats.queue.ns / 1000)
    expect(value('nv_inference_compute_infer_duration_us')).toBe(inferenceStats.computeInfer.ns / 1000)
    expect(value('nv_inference_pending_request_count')).toBe(0)
    expect(value('nv_model_load_duration_secs')).toBe(loadMs / 1000)
    expect(loadMs).toBeGreaterThan(0)
    expect([value('nv_cache_num_hits_per_model'), value('nv_cache_num_misses_per_model')]).toEqual([2, 8])
    expect(metrics.get('nv_cache_num_hits_per_model')!.samples.size).toBe(1) // no other has a cache
    expect(metrics.get('nv_pinned_memory_pool_total_bytes')!.samples.size).toBe(0)
  })

  it('have the rest under names of ours, histograms with what was counted', async () => {
    const { engine, model } = await served()
    const register = new Registry()
    prometheusMetrics(engine, {
      register,
      labels: { engine: 'first' },
      durationBuckets: [0.001, 10_000],
      batchSizeBuckets: [1, 4],
    })
    const metrics = await scrape(register)
    const value = (name: string, more = '', metric = name) =>
      metrics.get(metric)!.samples.get(`${name}{model="pairs",version="3",engine="first"${more}}`)
    const { batchStats, inferenceStats, inferenceCount, executionCount, instances } = model.stats()
    const ofOne = batchStats.find(({ batchSize }) => batchSize === 1)!.computeInfer.count
    expect(
      ['1', '4', '+Inf'].map((le) => value('zerohop_batch_size_bucket', `,le="${le}"`, 'zerohop_batch_size')),
    ).toEqual([ofOne, executionCount, executionCount])
    expect([
      value('zerohop_batch_size_sum', '', 'zerohop_batch_size'),
      value('zerohop_batch_size_count', '', 'zerohop_batch_size'),
    ]).toEqual([inferenceCount, executionCount])
    const counts = (name: string) =>
      ['10000', '+Inf'].map((le) => value(`${name}_bucket`, `,le="${le}"`, name))
    expect(counts('zerohop_request_duration_seconds')).toEqual([10, 10])
    expect(counts('zerohop_queue_duration_seconds')).toEqual([10, 10])
    expect(counts('zerohop_compute_duration_seconds')).toEqual([8, 8])
    expect(value('zerohop_queue_duration_seconds_sum', '', 'zerohop_queue_duration_seconds')).toBe(
      inferenceStats.queue.ns / 1e9,
    )
    expect(value('zerohop_request_refusals_total', ',reason="invalid"')).toBe(1)
    expect(value('zerohop_instance_rows_total', ',model_instance="pairs_0",worker="cpu_0"')).toBe(
      instances[0]!.rows,
    )
    const steps = metrics.get('zerohop_step_requests_total')!.samples
    expect(
      steps.get(
        'zerohop_step_requests_total{model="line",version="1",engine="first",step="twice",outcome="success"}',
      ),
    ).toBe(1)
    const { highWaterBytes, kind } = engine.stats().staging!
    expect(
      metrics
        .get('zerohop_staging_high_water_bytes')!
        .samples.get(`zerohop_staging_high_water_bytes{engine="first",pool="models",kind="${kind}"}`),
    ).toBe(highWaterBytes)
  })

  it('count a batch under the bounds that it does not pass, to the row', () => {
    const ran = { count: 1, ns: 1 }
    const batches = [128, 129, 256, 257].map((batchSize) => ({
      batchSize,
      computeInput: ran,
      computeInfer: ran,
      computeOutput: ran,
    }))
    const samples = batchSizeSamples('sizes', {}, [127, 128, 256], batches)
    expect(samples.map(({ value }) => value)).toEqual([0, 1, 3, 4, 770, 4])
  })

  it('are there once each, also of functions that one thread runs, and of versions of a function with threads of their own', async () => {
    const engine = ownEngine({ cpuWorkers: 1 })
    const register = new Registry()
    prometheusMetrics(engine, { register })
    for (const name of ['first', 'second']) await loadNumber(engine, name, (x) => x)
    for (const version of [1, 2, 1]) {
      await engine.loadFunction('threaded', {
        version,
        module: fixture('misbehaving.mjs'),
        instanceGroup: [{ count: 2 }],
        inputs: [{ name: 'x', type: 'int32', dims: [] }],
        outputs: [{ name: 'y', type: 'int32', dims: [] }],
      })
    }
    const metrics = await scrape(register) // which refuses a series that is there twice
    expect(metrics.get('zerohop_worker_restarts_total')!.samples.size).toBeGreaterThanOrEqual(5) // what was replaced may be there still
    const workers = engine.stats().workers
    expect(workers).toContainEqual(expect.objectContaining({ worker: 'application', instances: 2 }))
    expect(new Set(workers.map(({ worker }) => worker)).size).toBe(workers.length)
  })

  it('have names, units and help texts as Prometheus asks for, but for the names of Triton', async () => {
    const { engine } = await served()
    const register = new Registry()
    prometheusMetrics(engine, { register })
    const metrics = await scrape(register)
    const own = [...metrics].filter(([name]) => name.startsWith('zerohop_'))
    expect(own.length).toBeGreaterThan(30)
    expect(own.flatMap(([name, metric]) => complaints(name, metric))).toEqual([])
    expect(
      [...metrics].filter(
        ([name, { help, type }]) => !/^(nv|zerohop)_/.test(name) || help === '' || type === '',
      ),
    ).toEqual([])
    for (const [name, { samples }] of own)
      for (const series of samples.keys())
        expect(series).toMatch(new RegExp(`^${name}(_bucket|_sum|_count)?([{]|$)`))
  })

  it('are named in the documentation, with its options, and no others are', async () => {
    const register = new Registry()
    prometheusMetrics(ownEngine(), { register })
    const names = [...(await scrape(register)).keys()]
    const page = readFileSync(new URL('../../docs/reference/statistics.md', import.meta.url), 'utf8')
    const [, documentation] = page.split('\n## Prometheus\n') as [string, string] // before it stands what is generated
    expect([...new Set(documentation.match(/`(?:nv|zerohop)_\w+`/g))].toSorted()).toEqual(
      names.map((name) => `\`${name}\``).toSorted(),
    )
    const options = readFileSync(new URL('../../docs/reference/adapter-options.md', import.meta.url), 'utf8')
    for (const option of [
      'register',
      'labels',
      'durationBuckets',
      'batchSizeBuckets',
    ] satisfies (keyof PrometheusOptions)[])
      expect(options).toContain(`### \`prometheusMetrics.${option}\`\n`)
  })

  it('are read when the registry is, once for all of them, and go on counting when it is reset', async () => {
    const { engine, model } = await served()
    const asked = vi.spyOn(engine, 'stats')
    const register = new Registry()
    prometheusMetrics(engine, { register })
    await model.infer(row)
    expect(asked).not.toHaveBeenCalled()
    await register.metrics()
    expect(asked).toHaveBeenCalledTimes(1)
    register.resetMetrics()
    const success = (await scrape(register)).get('nv_inference_request_success')!
    expect(success.samples.get('nv_inference_request_success{model="pairs",version="3"}')).toBe(11)
  })

  it('of a version go when it is unloaded, and all of them when the engine is closed', async () => {
    const { engine } = await served()
    const register = new Registry()
    prometheusMetrics(engine, { register })
    await engine.unload('pairs')
    const left = seriesOf(await scrape(register))
    expect(left.filter((series) => series.includes('model="pairs"'))).toEqual([])
    expect(left.filter((series) => series.includes('model="twice"'))).not.toEqual([])
    await engine.close()
    expect(seriesOf(await scrape(register))).toEqual([])
  })

  it('go into the text of OpenMetrics, and into that of a cluster', async () => {
    const { engine } = await served()
    const register = new Registry()
    register.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never)
    prometheusMetrics(engine, { register })
    const text = await register.metrics()
    expect(text).toContain('nv_inference_request_success_total{model="pairs",version="3"} 10\n')
    expect(text).toContain('# TYPE zerohop_batches counter\n')
    expect(text.endsWith('# EOF\n')).toBe(true)
    const plain = new Registry()
    prometheusMetrics(engine, { register: plain })
    const json = await plain.getMetricsAsJSON()
    const both = AggregatorRegistry.aggregate<typeof Registry.PROMETHEUS_CONTENT_TYPE>([
      json,
      structuredClone(json),
    ])
    expect(await both.metrics()).toContain('nv_inference_request_success{model="pairs",version="3"} 20\n')
  })
})

describe('several engines', () => {
  it('share a registry by a label, and leave it one by one', async () => {
    const register = new Registry()
    const [first, second] = [await served(), await served()]
    const leave = prometheusMetrics(first.engine, { register, labels: { engine: 'first' } })
    const leaveToo = prometheusMetrics(second.engine, { register, labels: { engine: 'second' } })
    const engines = async () => {
      const series = seriesOf(await scrape(register))
      return ['first', 'second'].filter((name) => series.some((each) => each.includes(`engine="${name}"`)))
    }
    expect(await engines()).toEqual(['first', 'second'])
    leave()
    leave()
    expect(await engines()).toEqual(['second'])
    leaveToo()
    expect(await register.metrics()).toBe('\n')
  })

  it('of another process are asked there, and one that cannot be reached leaves the others', async () => {
    const { engine } = await served()
    const register = new Registry()
    let reached = true
    const remote = { stats: async () => (reached ? engine.stats() : Promise.reject(new Error('gone'))) }
    prometheusMetrics(engine, { register, labels: { at: 'here' } })
    prometheusMetrics(remote, { register, labels: { at: 'there' } })
    const counts = async () => (await scrape(register)).get('nv_inference_request_success')!.samples.size
    expect(await counts()).toBe(6)
    reached = false
    expect(await counts()).toBe(3)
  })
})

describe('an engine of another version of the library', () => {
  it('has the metrics that it has what is needed for, and leaves the others', async () => {
    const { engine } = await served()
    const register = new Registry()
    const older = () => {
      const { eventLoopDelay: _, ...stats } = structuredClone(engine.stats())
      for (const { versions } of Object.values(stats.models))
        for (const version of Object.values(versions)) Reflect.deleteProperty(version, 'leases')
      return stats as EngineStatistics
    }
    prometheusMetrics(engine, { register, labels: { at: 'here' } })
    prometheusMetrics({ stats: older }, { register, labels: { at: 'there' } })
    const metrics = await scrape(register)
    const counts = ['nv_inference_count', 'zerohop_leases_held', 'zerohop_event_loop_delay_seconds'].map(
      (name) =>
        [...metrics.get(name)!.samples.keys()].filter((series) => series.includes('at="there"')).length,
    )
    expect(counts).toEqual([3, 0, 0])
    expect(metrics.get('zerohop_leases_held')!.samples.size).toBe(3)
  })
})

describe('an engine that does not answer', () => {
  it('holds nobody up for long, and is not asked again before it has', async () => {
    const { engine } = await served()
    const register = new Registry()
    const asked = deferred<EngineStatistics>()
    const stats = vi.fn(() => asked.promise)
    prometheusMetrics(engine, { register, labels: { at: 'here' } })
    prometheusMetrics({ stats }, { register, labels: { at: 'there' } })
    const places = async (text: Promise<string>) =>
      seriesOf(exposed(await text))
        .filter((series) => series.startsWith('nv_inference_count'))
        .map((series) => /at="(\w+)"/.exec(series)![1])
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    for (let scrapes = 0; scrapes < 3; scrapes++) {
      const text = register.metrics()
      await vi.advanceTimersByTimeAsync(5000)
      expect(new Set(await places(text))).toEqual(new Set(['here']))
    }
    expect(stats).toHaveBeenCalledTimes(1)
    asked.resolve(engine.stats())
    expect(new Set(await places(register.metrics()))).toEqual(new Set(['here', 'there']))
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('what is wrong is told', () => {
  const engine = { stats: () => ownEngine().stats() }
  const bad: [string, () => unknown, string][] = [
    ['an engine that is none', () => prometheusMetrics({} as never), 'engine'],
    [
      'an unknown option',
      () => prometheusMetrics(engine, { prefix: 'x' } as PrometheusOptions),
      'options.prefix',
    ],
    [
      'a registry that is none',
      () => prometheusMetrics(engine, { register: {} } as never),
      'options.register',
    ],
    [
      'a label that cannot be one',
      () => prometheusMetrics(engine, { labels: { 'a-b': 'x' } }),
      'options.labels',
    ],
    [
      'a label that the metrics have',
      () => prometheusMetrics(engine, { labels: { model: 'x' } }),
      'options.labels',
    ],
    [
      'a label that is no string',
      () => prometheusMetrics(engine, { labels: { at: 1 } } as never),
      'options.labels.at',
    ],
    [
      'buckets in no order',
      () => prometheusMetrics(engine, { durationBuckets: [2, 1] }),
      'options.durationBuckets',
    ],
    ['no buckets', () => prometheusMetrics(engine, { batchSizeBuckets: [] }), 'options.batchSizeBuckets'],
  ]
  it.each(bad)('%s', (_, register, argument) => {
    expect(register).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG', argument }))
  })

  it('labels that an engine of the registry has, or that have other names', () => {
    const register = new Registry()
    prometheusMetrics(engine, { register, labels: { engine: 'first' } })
    const refused: Record<string, string>[] = [{ engine: 'first' }, {}, { other: 'first' }]
    for (const labels of refused) {
      expect(() => prometheusMetrics(engine, { register, labels })).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_ARG', argument: 'options.labels' }),
      )
    }
  })

  it('a registry in which another has the name of a metric, which keeps it', async () => {
    const register = new Registry()
    new Counter({ name: 'nv_inference_count', help: 'of another', registers: [register] }).inc(7)
    expect(() => prometheusMetrics(engine, { register })).toThrow(/nv_inference_count/)
    expect(await register.metrics()).toBe(
      '# HELP nv_inference_count of another\n# TYPE nv_inference_count counter\nnv_inference_count 7\n',
    )
  })

  it('that prom-client is not installed, where nobody gave a registry', () => {
    const loader = Module as unknown as { _load(name: string, ...rest: unknown[]): unknown }
    const { _load } = loader
    loader._load = (name, ...rest) => {
      if (name === 'prom-client')
        throw Object.assign(new Error(`Cannot find module '${name}'`), { code: 'MODULE_NOT_FOUND' })
      return _load.call(loader, name, ...rest)
    }
    onTestFinished(() => void (loader._load = _load))
    expect(() => prometheusMetrics(engine)).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG',
        message: expect.stringContaining('npm install prom-client'),
      }),
    )
  })
})
