import type { ConfigFields } from './config-fields.ts'

/** The one family of metrics whose buckets Triton lets be set. */
const family = 'nv_inference_first_response_histogram_ms'

/** Checks `model_metrics` as Triton does; that it changes nothing here is noted elsewhere. */
export function checkMetrics(config: ConfigFields): void {
  const metrics = config.message('model_metrics')
  if (metrics === undefined) return
  for (const control of metrics.messages('metric_control')) {
    const identifier = control.message('metric_identifier')
    if (identifier === undefined) return control.fail('metric_identifier', 'a metric_identifier', undefined)
    const name = identifier.string('family')
    if (name !== family) identifier.fail('family', `'${family}'`, name)
    const histogram = control.message('histogram_options')
    const buckets = histogram?.numbers('buckets') ?? []
    if (buckets.length === 0) control.fail('histogram_options', 'buckets', 'none')
    if (buckets.some((bucket, index) => index > 0 && bucket <= buckets[index - 1]!))
      histogram!.fail('buckets', 'buckets in ascending order', buckets)
  }
  config.note('model_metrics', 'the buckets of histograms are fixed')
}
