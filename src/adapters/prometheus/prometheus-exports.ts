export { prometheusMetrics, type PrometheusOptions } from './prometheus-metrics.ts'
export type { MeasuredEngine } from './registered-engines.ts'
