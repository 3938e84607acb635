// Which metrics of Prometheus come from a statistic: found by giving each metric statistics that note what is read.
import type { EngineStatistics } from '../../src/engine/engine-resources.ts'
import type { ModelStatistics } from '../../src/observe/model-statistics.ts'
import { metricFamilies } from '../../src/adapters/prometheus/metric-families.ts'

/** The metrics that read the statistic at a path, or anything below it. */
export function metricsByStatistic(
  of: 'model' | 'engine',
): (path: string, hasRowsBelow: boolean) => string[] {
  const read = metricFamilies.map((family) => {
    const model = new Set<string>()
    const engine = new Set<string>()
    family.samples({
      statistics: noting('', engine) as EngineStatistics,
      labels: {},
      versions: [{ labels: {}, statistics: noting('', model) as ModelStatistics }],
      durationBuckets: [1],
      batchSizeBuckets: [1],
    })
    return { name: family.name, paths: of === 'model' ? model : engine }
  })
  return (path, hasRowsBelow) =>
    read.filter(({ paths }) => !hasRowsBelow && paths.has(path)).map(({ name }) => name)
}

/** A value that notes its path and those of all properties that are read of it. It is a number, an object and an array of one. */
function noting(path: string, paths: Set<string>): unknown {
  return new Proxy([] as unknown[], {
    get: (target, key) => {
      if (key === Symbol.toPrimitive) return () => 1
      if (key === '0') return noting(path, paths)
      if (key === 'length') return 1
      if (typeof key === 'symbol' || key in target) return Reflect.get(target, key) as unknown
      const below = path === '' ? key : `${path}.${key}`
      paths.add(below)
      return noting(below, paths)
    },
    has: (target, key) => key === '0' || key in target,
  })
}
