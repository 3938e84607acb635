/** Options of perf_analyzer that `zerohop perf` does not have, and why. */
export const leftOut: readonly (readonly [options: string, reason: string])[] = [
  [
    '--service-kind --endpoint --model-signature-name -i -u --streaming -H --grpc-compression-algorithm ' +
      '--grpc-method --proto --input-tensor-format --output-tensor-format',
    'there is no server and no protocol',
  ],
  [
    '--ssl-grpc-use-ssl --ssl-grpc-root-certifications-file --ssl-grpc-private-key-file ' +
      '--ssl-grpc-certificate-chain-file --ssl-https-verify-peer --ssl-https-verify-host ' +
      '--ssl-https-ca-certificates-file --ssl-https-client-certificate-file --ssl-https-client-certificate-type ' +
      '--ssl-https-private-key-file --ssl-https-private-key-type',
    'there is no connection to encrypt',
  ],
  ['--shared-memory --output-shared-memory-size', 'callers and engine share memory anyway'],
  ['--triton-server-directory --bls-composing-models --enable-mpi', 'they concern Triton only'],
  [
    '-a --async --sync',
    'every call returns a promise; callers of --concurrency-range wait for it, those of a rate do not',
  ],
  ['--max-threads', 'load is generated on the application thread, as in use; another thread would add a hop'],
  ['--session-concurrency', 'there are no chat sessions'],
  ['--fixed-schedule', 'use --replay to replay recorded arrivals'],
  [
    '--collect-metrics --metrics-url --metrics-interval',
    'processor time and event loop delay are always measured',
  ],
  [
    '--trace-level --trace-rate --trace-count --log-frequency',
    'traces are an option of the engine: use --engine-options',
  ],
  ['--data-directory', 'deprecated in perf_analyzer: use --input-data'],
  ['-c', 'deprecated in perf_analyzer: use the end of --concurrency-range'],
  ['-d', 'deprecated in perf_analyzer: use --latency-threshold with --concurrency-range 1:0'],
  ['-t', 'deprecated in perf_analyzer: use --concurrency-range'],
  ['-z', 'deprecated in perf_analyzer: use --input-data zero'],
]

/** Columns of its CSV that `-f` does not have, and why. */
export const leftOutColumns: readonly (readonly [columns: string, reason: string])[] = [
  ['Response Throughput', 'each request has exactly one answer'],
  [
    'Avg GPU Utilization, Avg GPU Power Usage, Max GPU Memory Usage, Total GPU Memory',
    'ONNX Runtime reports no GPU metrics',
  ],
]

/** The message for an unknown option: why it is missing, if perf_analyzer has it. */
export function withReason(message: string): string {
  const [, flag] = /^error: unknown option '(-[^']*)'/.exec(message) ?? []
  const found = leftOut.find(([options]) => options.split(' ').includes(flag ?? ''))
  return found === undefined
    ? message
    : `error: option '${flag}' of perf_analyzer does not exist here: ${found[1]}`
}

/** All of this as text for --help-all. */
export function leftOutText(): string {
  const shown = ([names, reason]: readonly [string, string]) => `  ${names}\n      ${reason}\n`
  return `Options of perf_analyzer that do not exist here:\n${leftOut.map(shown).join('')}\nColumns of its CSV that do not exist here:\n${leftOutColumns.map(shown).join('')}`
}

/** Exit codes of `zerohop perf`, as in perf_analyzer. */
export const perfExitCodes = {
  /** The measurement windows did not agree. */
  unstable: 2,
  /** Answers under load differ from those alone (`--check-rows`). */
  differs: 1,
  usage: 3,
  /** Any other error. */
  wrong: 99,
} as const
