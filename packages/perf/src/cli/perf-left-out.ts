/** Options of perf_analyzer that `zerohop perf` does not have, and why. */
export const leftOut: readonly { readonly options: readonly string[]; readonly reason: string }[] = [
  {
    options: [
      '--service-kind',
      '--endpoint',
      '--model-signature-name',
      '-i',
      '-u',
      '--streaming',
      '-H',
      '--grpc-compression-algorithm',
      '--grpc-method',
      '--proto',
      '--input-tensor-format',
      '--output-tensor-format',
    ],
    reason: 'there is no server, and no protocol to it',
  },
  {
    options: [
      '--ssl-grpc-use-ssl',
      '--ssl-grpc-root-certifications-file',
      '--ssl-grpc-private-key-file',
      '--ssl-grpc-certificate-chain-file',
      '--ssl-https-verify-peer',
      '--ssl-https-verify-host',
      '--ssl-https-ca-certificates-file',
      '--ssl-https-client-certificate-file',
      '--ssl-https-client-certificate-type',
      '--ssl-https-private-key-file',
      '--ssl-https-private-key-type',
    ],
    reason: 'there is no connection to be encrypted',
  },
  {
    options: ['--shared-memory', '--output-shared-memory-size'],
    reason: 'callers and engine share the memory of the process anyway',
  },
  {
    options: ['--triton-server-directory', '--bls-composing-models', '--enable-mpi'],
    reason: 'they are of Triton alone',
  },
  {
    options: ['-a, --async', '--sync'],
    reason:
      'every call is answered by a promise: callers wait for it under --concurrency-range, and do not under a rate',
  },
  {
    options: ['--max-threads'],
    reason:
      'load is made on the thread of the application, where its users call from; a thread of its own would add the hop that the engine saves',
  },
  { options: ['--session-concurrency'], reason: 'there are no sessions of chats' },
  { options: ['--fixed-schedule'], reason: 'recorded arrivals are replayed by --replay' },
  {
    options: ['--collect-metrics', '--metrics-url', '--metrics-interval'],
    reason: 'processor time and the delay of the event loop are always measured, in the process itself',
  },
  {
    options: ['--trace-level', '--trace-rate', '--trace-count', '--log-frequency'],
    reason: 'traces are an option of the engine (--engine-options)',
  },
  {
    options: ['--data-directory'],
    reason: 'perf_analyzer has it for its past only: --input-data stands for it',
  },
  {
    options: ['-c'],
    reason: 'perf_analyzer has it for its past only: the end of --concurrency-range stands for it',
  },
  {
    options: ['-d'],
    reason:
      'perf_analyzer has it for its past only: --latency-threshold with --concurrency-range 1:0 stands for it',
  },
  { options: ['-t'], reason: 'perf_analyzer has it for its past only: --concurrency-range stands for it' },
  { options: ['-z'], reason: 'perf_analyzer has it for its past only: --input-data zero stands for it' },
]

/** Columns of its CSV that `-f` does not have, and why. */
export const leftOutColumns: readonly { readonly columns: readonly string[]; readonly reason: string }[] = [
  {
    columns: ['Response Throughput'],
    reason: 'it is of models that answer a request several times: here each has one answer',
  },
  {
    columns: ['Avg GPU Utilization', 'Avg GPU Power Usage', 'Max GPU Memory Usage', 'Total GPU Memory'],
    reason: 'ONNX Runtime reports no GPU metrics',
  },
]

/** The message for an unknown option: why it is missing, if perf_analyzer has it. */
export function withReason(message: string): string {
  const [, flag] = /^error: unknown option '(-[^']*)'/.exec(message) ?? []
  const found = leftOut.find(({ options }) => options.some((names) => names.split(', ').includes(flag ?? '')))
  return found === undefined
    ? message
    : `error: option '${flag}' of perf_analyzer is left out: ${found.reason}`
}

/** All of this as text for --help. */
export function leftOutText(): string {
  const options = leftOut.map(({ options, reason }) => `  ${options.join(' ')}\n      ${reason}\n`)
  const columns = leftOutColumns.map(({ columns, reason }) => `  ${columns.join(', ')}\n      ${reason}\n`)
  return `Options of perf_analyzer that are not here:\n${options.join('')}\nColumns of its CSV that are not here:\n${columns.join('')}`
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
